//! What stands in the place of a file: pointers of git-lfs and DVC, and links that lead out of the directory.

use std::collections::BTreeMap;

use super::role::{self, Role};
use super::{Error, Problem, Scene};
use crate::capture::walk::Seen;
use crate::model::content::split;

/// Finds pointers among the files that a loader reads, and descriptions of files that were not fetched.
pub(super) fn check(
    scene: &Scene<'_>,
    roles: &BTreeMap<Vec<u8>, Role>,
    problems: &mut Vec<Problem>,
) -> Result<(), Error> {
    for file in &scene.tree.files {
        if let Some(target) = file.path.strip_suffix(b".dvc")
            && scene.tree.file(target).is_none()
            && !scene.tree.dirs.iter().any(|dir| dir == target)
        {
            problems.push(Problem::DvcPointer { path: file.path.clone() });
        }
        if roles.get(&file.path).is_some_and(|role| role.is_read()) {
            problems.extend(lfs_pointer(scene, file)?);
        }
    }
    for (path, target) in &scene.tree.links {
        let is_inside =
            resolve(split(path).0, target).is_some_and(|target| scene.tree.file(&target).is_some());
        if role::by_name(path).is_read() && !is_inside {
            problems.push(Problem::Link { path: path.clone(), target: target.clone() });
        }
    }
    Ok(())
}

fn lfs_pointer(scene: &Scene<'_>, file: &Seen) -> Result<Option<Problem>, Error> {
    if !file.may_point {
        return Ok(None);
    }
    let Some(bytes) = scene.read_small(file, file.size)?.filter(|bytes| bytes.starts_with(b"version "))
    else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let digest = field("oid sha256:").filter(|digest| digest.len() == 64);
    let digest = digest.filter(|digest| digest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let size = field("size ").and_then(|size| size.parse().ok());
    let target = digest.map(str::to_owned).zip(size);
    Ok(Some(Problem::LfsPointer { path: file.path.clone(), size: file.size, target }))
}

/// Follows `target` from inside `dir` without asking the disk, or `None` if it leaves the root.
fn resolve(dir: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let mut path: Vec<&[u8]> = dir.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    if target.starts_with(b"/") {
        return None;
    }
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                path.pop()?;
            }
            _ => path.push(part),
        }
    }
    Some(path.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn links_are_followed_on_paper() {
        assert_eq!(resolve(b"a/b", b"../c"), Some(b"a/c".to_vec()));
        assert_eq!(resolve(b"", b"./x//y"), Some(b"x/y".to_vec()));
        assert_eq!(resolve(b"a", b"../../x"), None);
        assert_eq!(resolve(b"a", b"/x"), None);
    }
}
