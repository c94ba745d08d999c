//! Records whose content is files: tree nodes, the SHA-256 sums beside them, and the tensors of a checkpoint.
//!
//! Each is plain data with one encoding, so equal content has one id wherever and whenever it is read. Nothing
//! here touches a disk, and nothing here knows runs, names or people: those are records of other files.

use std::collections::{BTreeMap, HashMap};

use crate::codec::{self, MAX_RECORD, MapState, Reader, Writer};
use crate::id::{ObjectId, Sha256, hex, object_id};

/// A tree node holds this many entries at most; a larger directory is split.
pub const MAX_LEAF: usize = 4096;

/// An object that is ready to be stored: its id and its bytes.
pub type Object = (ObjectId, Vec<u8>);

/// Why bytes or entries are not a record of content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not in the one form that records have, or are too many.
    #[error("the bytes are not a record in its one form")]
    Codec(#[from] codec::Error),
    /// A record of another kind.
    #[error("expected a record of kind `{expected}`, found `{found}`")]
    Kind {
        /// The kind wanted.
        expected: &'static str,
        /// The kind that the bytes state.
        found: String,
    },
    /// A version that is not known here.
    #[error("version {found} of `{kind}` is not known")]
    Version {
        /// The kind.
        kind: &'static str,
        /// The version that the bytes state.
        found: u64,
    },
    /// A field is missing, or another stands in its place.
    #[error("expected the field `{expected}`")]
    Field {
        /// The field that the format has here.
        expected: &'static str,
    },
    /// An entry of a type that is not known here.
    #[error("`{found}` is not a type of tree entry")]
    EntryType {
        /// The type that the bytes state.
        found: u64,
    },
    /// No directory can hold this name.
    #[error("`{}` cannot name a file", escape(name))]
    Name {
        /// The name.
        name: Vec<u8>,
    },
    /// Two entries of one name, or entries out of order.
    #[error("`{}` stands twice or out of order", escape(name))]
    Order {
        /// The second of the two.
        name: Vec<u8>,
    },
    /// More entries than a node may hold.
    #[error("a tree node holds {found} entries, and may hold {MAX_LEAF}")]
    TooManyEntries {
        /// Entries found.
        found: u64,
    },
    /// A split without children, or with a child that holds what belongs to another.
    #[error("the split of a directory does not follow the rule")]
    Split,
    /// A digest that a sums record needs was not given.
    #[error("no digest is known for {id}, which the tree names")]
    NotGiven {
        /// The file or tree node.
        id: ObjectId,
    },
}

/// Why a tree cannot be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError<E: std::error::Error + 'static> {
    /// A node could not be had.
    #[error("tree node {id} could not be read")]
    Load {
        /// The node.
        id: ObjectId,
        /// What the loader said.
        #[source]
        source: E,
    },
    /// A node is not a tree node in its one form.
    #[error("object {id} is not a tree node")]
    Node {
        /// The node.
        id: ObjectId,
        /// What is wrong with it.
        #[source]
        source: Error,
    },
    /// More levels, entries or bytes of paths than any directory on a disk has.
    #[error("the tree has more than {limit} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The most that is accepted.
        limit: usize,
    },
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The raw bytes of the name.
    pub name: Vec<u8>,
    /// What the name stands for.
    pub what: What,
}

/// What a name in a directory stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A regular file.
    File {
        /// Whether its owner may execute it.
        exec: bool,
        /// Bytes in it.
        size: u64,
        /// BLAKE3 of its bytes.
        id: ObjectId,
    },
    /// A directory, by the id of its tree node.
    Dir(ObjectId),
    /// A symbolic link, by the bytes of its target.
    Link(Vec<u8>),
}

/// A tree node: a directory or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// The entries themselves, by ascending name.
    Leaf(Vec<Entry>),
    /// Children by the next byte of BLAKE3(name), ascending.
    Split(Vec<(u8, ObjectId)>),
}

impl Node {
    /// Decodes a tree node.
    ///
    /// Whether a split has more than [`MAX_LEAF`] entries below it, and whether each lies under the right child,
    /// cannot be seen in one node; [`read_dir`] and [`list`] check both.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (mut reader, mut map) = open(bytes, "tree")?;
        let node = match reader.key(&mut map)? {
            Some("entries") => {
                let count = reader.array()?;
                if count > MAX_LEAF as u64 {
                    return Err(Error::TooManyEntries { found: count });
                }
                let mut entries: Vec<Entry> = Vec::with_capacity(count as usize);
                for _ in 0..count {
                    let entry = decode_entry(&mut reader)?;
                    if entries.last().is_some_and(|last| last.name >= entry.name) {
                        return Err(Error::Order { name: entry.name });
                    }
                    entries.push(entry);
                }
                Self::Leaf(entries)
            }
            Some("split") => {
                let mut children: Vec<(u8, ObjectId)> = Vec::new();
                for _ in 0..reader.array()? {
                    reader.array_len(2, "a byte and a node id")?;
                    let byte = u8::try_from(reader.uint()?).map_err(|_| Error::Split)?;
                    if children.last().is_some_and(|(last, _)| *last >= byte) {
                        return Err(Error::Split);
                    }
                    children.push((byte, ObjectId::from_bytes(reader.array_of()?)));
                }
                if children.is_empty() {
                    return Err(Error::Split);
                }
                Self::Split(children)
            }
            _ => return Err(Error::Field { expected: "entries" }),
        };
        close(&mut reader, &mut map)?;
        Ok(node)
    }
}

fn decode_entry(reader: &mut Reader<'_>) -> Result<Entry, Error> {
    let at = reader.position();
    let len = reader.array()?;
    let kind = reader.uint()?;
    let expected_len = match kind {
        0 | 1 => 4,
        2 | 3 => 3,
        found => return Err(Error::EntryType { found }),
    };
    if len != expected_len {
        return Err(codec::Error::Unexpected { at, expected: "an entry with the fields of its type" }.into());
    }
    let name = reader.bytes()?.to_vec();
    check_name(&name)?;
    let what = match kind {
        2 => What::Dir(ObjectId::from_bytes(reader.array_of()?)),
        3 => What::Link(reader.bytes()?.to_vec()),
        _ => {
            What::File { exec: kind == 1, size: reader.uint()?, id: ObjectId::from_bytes(reader.array_of()?) }
        }
    };
    Ok(Entry { name, what })
}

fn check_name(name: &[u8]) -> Result<(), Error> {
    if matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(Error::Name { name: name.to_vec() });
    }
    Ok(())
}

/// Encodes one directory and returns its nodes, children first and the directory's own last.
///
/// The result depends on the set of entries only, not on their order.
pub fn build_node(mut entries: Vec<Entry>) -> Result<Vec<Object>, Error> {
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    for pair in entries.windows(2) {
        if pair[0].name == pair[1].name {
            return Err(Error::Order { name: pair[1].name.clone() });
        }
    }
    for entry in &entries {
        check_name(&entry.name)?;
    }
    let mut nodes = Vec::with_capacity(1);
    write_node(&entries.iter().collect::<Vec<_>>(), 0, &mut nodes)?;
    Ok(nodes)
}

/// Writes the node over `entries`, which agree in the first `depth` bytes of BLAKE3(name).
fn write_node(entries: &[&Entry], depth: usize, nodes: &mut Vec<Object>) -> Result<ObjectId, Error> {
    let mut writer = Writer::new();
    if entries.len() <= MAX_LEAF {
        begin(&mut writer, 3, "tree").text("entries").array(entries.len());
        for entry in entries {
            match &entry.what {
                What::File { exec, size, id } => writer
                    .array(4)
                    .uint(u64::from(*exec))
                    .byte_string(&entry.name)
                    .uint(*size)
                    .byte_string(id.as_bytes()),
                What::Dir(id) => writer.array(3).uint(2).byte_string(&entry.name).byte_string(id.as_bytes()),
                What::Link(target) => writer.array(3).uint(3).byte_string(&entry.name).byte_string(target),
            };
        }
    } else {
        let mut parts: BTreeMap<u8, Vec<&Entry>> = BTreeMap::new();
        for entry in entries {
            let byte = radix(&entry.name, depth).ok_or(Error::Split)?;
            parts.entry(byte).or_default().push(entry);
        }
        begin(&mut writer, 3, "tree").text("split").array(parts.len());
        for (byte, part) in parts {
            let id = write_node(&part, depth + 1, nodes)?;
            writer.array(2).uint(u64::from(byte)).byte_string(id.as_bytes());
        }
    }
    let object = seal(writer)?;
    let id = object.0;
    nodes.push(object);
    Ok(id)
}

/// Returns the byte of BLAKE3(name) that decides at `depth`; there are 32.
fn radix(name: &[u8], depth: usize) -> Option<u8> {
    object_id(name).as_bytes().get(depth).copied()
}

/// Loads a tree node by id; whoever gives it makes sure that the bytes have that id.
pub type Load<'a, E> = dyn FnMut(ObjectId) -> Result<Vec<u8>, E> + 'a;

/// Returns the entries of one directory by ascending name, whether or not its node is split.
pub fn read_dir<E: std::error::Error + 'static>(
    id: ObjectId,
    load: &mut Load<'_, E>,
) -> Result<Vec<Entry>, ListError<E>> {
    let mut entries = Vec::new();
    gather(id, &mut Vec::new(), load, &mut entries)?;
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Adds the entries below one node. A split costs one step of `bytes` and there are 32 at most, so the recursion
/// is shallow; a leaf that is reached by a second way fails the test of its bytes, so it is also finite.
fn gather<E: std::error::Error + 'static>(
    id: ObjectId,
    bytes: &mut Vec<u8>,
    load: &mut Load<'_, E>,
    entries: &mut Vec<Entry>,
) -> Result<(), ListError<E>> {
    let node = load(id).map_err(|source| ListError::Load { id, source })?;
    let wrong = || ListError::Node { id, source: Error::Split };
    match Node::decode(&node).map_err(|source| ListError::Node { id, source })? {
        Node::Leaf(leaf) => {
            let at_home = |entry: &Entry| object_id(&entry.name).as_bytes().starts_with(bytes);
            if !bytes.is_empty() && (leaf.is_empty() || !leaf.iter().all(at_home)) {
                return Err(wrong());
            }
            entries.extend(leaf);
        }
        Node::Split(children) => {
            if bytes.len() == 32 {
                return Err(wrong());
            }
            let before = entries.len();
            for (byte, child) in children {
                bytes.push(byte);
                gather(child, bytes, load, entries)?;
                bytes.pop();
            }
            if entries.len() - before <= MAX_LEAF {
                return Err(wrong());
            }
        }
    }
    Ok(())
}

/// How much of a tree is listed. Sub-trees are shared, so a few nodes can stand for any number of paths.
#[derive(Clone, Copy)]
struct Limits {
    levels: usize,
    entries: usize,
    path_bytes: usize,
}

/// Paths on a disk are shorter than 4,096 bytes, hence shallower than the first; the others bound memory.
const LIMITS: Limits = Limits { levels: 2048, entries: 1 << 24, path_bytes: 1 << 31 };

/// Returns everything below a tree by its path, whose parts are joined by `/`; the root itself is left out.
pub fn list<E: std::error::Error + 'static>(
    root: ObjectId,
    load: &mut Load<'_, E>,
) -> Result<BTreeMap<Vec<u8>, What>, ListError<E>> {
    list_within(LIMITS, root, load)
}

fn list_within<E: std::error::Error + 'static>(
    limits: Limits,
    root: ObjectId,
    load: &mut Load<'_, E>,
) -> Result<BTreeMap<Vec<u8>, What>, ListError<E>> {
    let within = |what, found, limit| {
        if found > limit { Err(ListError::TooLarge { what, limit }) } else { Ok(()) }
    };
    let mut all = BTreeMap::new();
    let mut path_bytes = 0;
    let mut open = vec![(Vec::new(), root, 1)];
    while let Some((path, id, level)) = open.pop() {
        within("levels", level, limits.levels)?;
        for Entry { name, what } in read_dir(id, load)? {
            let path = join(&path, &name);
            path_bytes += path.len();
            within("bytes of paths", path_bytes, limits.path_bytes)?;
            if let What::Dir(below) = what {
                open.push((path.clone(), below, level + 1));
            }
            all.insert(path, what);
            within("entries", all.len(), limits.entries)?;
        }
    }
    Ok(all)
}

/// Joins a name to the path of its directory, which is empty for the root.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

/// Splits a path into its directory, which is empty for the root, and its name.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

/// The SHA-256 digests beside one tree node, for tools that know no BLAKE3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    /// The tree node.
    pub tree: ObjectId,
    /// Digests of its files, in the order of its entries.
    pub files: Vec<Sha256>,
    /// Sums of its directories in the order of its entries; of a split, the sums of its children.
    pub below: Vec<ObjectId>,
}

impl Sums {
    /// Encodes the record.
    pub fn encode(&self) -> Result<Object, Error> {
        let mut writer = Writer::new();
        begin(&mut writer, 5, "sums").text("tree").byte_string(self.tree.as_bytes());
        writer.text("below").array(self.below.len());
        for id in &self.below {
            writer.byte_string(id.as_bytes());
        }
        writer.text("files").array(self.files.len());
        for digest in &self.files {
            writer.byte_string(digest.as_bytes());
        }
        seal(writer)
    }

    /// Decodes the record; whether it fits its tree node is not seen here.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (mut reader, mut map) = open(bytes, "sums")?;
        field(&mut reader, &mut map, "tree")?;
        let tree = ObjectId::from_bytes(reader.array_of()?);
        field(&mut reader, &mut map, "below")?;
        let count = reader.array()?;
        let below = (0..count)
            .map(|_| reader.array_of().map(ObjectId::from_bytes))
            .collect::<Result<_, codec::Error>>()?;
        field(&mut reader, &mut map, "files")?;
        let count = reader.array()?;
        let files = (0..count)
            .map(|_| reader.array_of().map(Sha256::from_bytes))
            .collect::<Result<_, codec::Error>>()?;
        close(&mut reader, &mut map)?;
        Ok(Self { tree, files, below })
    }
}

/// Returns the sums of tree nodes that come children first, as [`build_node`] gives them; the root's come last.
///
/// A file's SHA-256 is asked for by its BLAKE3: equal bytes have equal digests, so sums are shared where trees are.
pub fn build_sums(
    nodes: &[Object],
    sha256: &dyn Fn(ObjectId) -> Option<Sha256>,
) -> Result<Vec<Object>, Error> {
    let mut of_node: HashMap<ObjectId, ObjectId> = HashMap::with_capacity(nodes.len());
    let mut objects = Vec::with_capacity(nodes.len());
    for (tree, bytes) in nodes {
        let mut sums = Sums { tree: *tree, files: Vec::new(), below: Vec::new() };
        let below = |id: ObjectId| of_node.get(&id).copied().ok_or(Error::NotGiven { id });
        match Node::decode(bytes)? {
            Node::Leaf(entries) => {
                for entry in entries {
                    match entry.what {
                        What::File { id, .. } => sums.files.push(sha256(id).ok_or(Error::NotGiven { id })?),
                        What::Dir(id) => sums.below.push(below(id)?),
                        What::Link(_) => {}
                    }
                }
            }
            Node::Split(children) => {
                for (_, id) in children {
                    sums.below.push(below(id)?);
                }
            }
        }
        let object = sums.encode()?;
        of_node.insert(*tree, object.0);
        objects.push(object);
    }
    Ok(objects)
}

/// One tensor of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in the model.
    pub name: String,
    /// The type of its elements, as its file spells it.
    pub dtype: String,
    /// Its dimensions; none is a scalar.
    pub shape: Vec<u64>,
    /// BLAKE3 of its raw bytes.
    pub id: ObjectId,
}

/// The tensors of a checkpoint, however its files divide, order or describe them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tensors {
    /// The tensors, in any order; encoding sorts them by the bytes of their names.
    pub tensors: Vec<Tensor>,
}

impl Tensors {
    /// Encodes the record; two tensors of one name are refused.
    pub fn encode(&self) -> Result<Object, Error> {
        let mut sorted: Vec<&Tensor> = self.tensors.iter().collect();
        sorted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(Error::Order { name: pair[1].name.clone().into_bytes() });
        }
        let mut writer = Writer::new();
        begin(&mut writer, 3, "tensors").text("tensors").array(sorted.len());
        for tensor in sorted {
            writer.array(4).text(&tensor.name).text(&tensor.dtype).array(tensor.shape.len());
            for size in &tensor.shape {
                writer.uint(*size);
            }
            writer.byte_string(tensor.id.as_bytes());
        }
        seal(writer)
    }

    /// Decodes the record.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (mut reader, mut map) = open(bytes, "tensors")?;
        field(&mut reader, &mut map, "tensors")?;
        let mut tensors: Vec<Tensor> = Vec::new();
        for _ in 0..reader.array()? {
            reader.array_len(4, "name, dtype, shape and id of a tensor")?;
            let name = reader.text()?.to_owned();
            if tensors.last().is_some_and(|last| last.name >= name) {
                return Err(Error::Order { name: name.into_bytes() });
            }
            let dtype = reader.text()?.to_owned();
            let shape = (0..reader.array()?).map(|_| reader.uint()).collect::<Result<_, _>>()?;
            tensors.push(Tensor { name, dtype, shape, id: ObjectId::from_bytes(reader.array_of()?) });
        }
        close(&mut reader, &mut map)?;
        Ok(Self { tensors })
    }
}

/// Opens a record of `len` fields; `v` and `kind` come first, since shorter keys do.
fn begin<'w>(writer: &'w mut Writer, len: usize, kind: &str) -> &'w mut Writer {
    writer.map(len).text("v").uint(1).text("kind").text(kind)
}

fn seal(writer: Writer) -> Result<Object, Error> {
    let bytes = writer.finish();
    if bytes.len() > MAX_RECORD {
        return Err(codec::Error::TooLarge { size: bytes.len() }.into());
    }
    Ok((object_id(&bytes), bytes))
}

fn open<'a>(bytes: &'a [u8], kind: &'static str) -> Result<(Reader<'a>, MapState<'a>), Error> {
    if bytes.len() > MAX_RECORD {
        return Err(codec::Error::TooLarge { size: bytes.len() }.into());
    }
    let mut reader = Reader::new(bytes);
    let mut map = reader.map()?;
    field(&mut reader, &mut map, "v")?;
    let version = reader.uint()?;
    field(&mut reader, &mut map, "kind")?;
    match reader.text()? {
        found if found != kind => Err(Error::Kind { expected: kind, found: found.to_owned() }),
        _ if version != 1 => Err(Error::Version { kind, found: version }),
        _ => Ok((reader, map)),
    }
}

fn field<'a>(reader: &mut Reader<'a>, map: &mut MapState<'a>, expected: &'static str) -> Result<(), Error> {
    if reader.key(map)? == Some(expected) { Ok(()) } else { Err(Error::Field { expected }) }
}

fn close<'a>(reader: &mut Reader<'a>, map: &mut MapState<'a>) -> Result<(), Error> {
    if reader.key(map)?.is_some() {
        return Err(Error::Field { expected: "the end of the record" });
    }
    Ok(reader.end()?)
}

/// Writes a name or path for people and JSON: printable text stays, every other byte becomes `\xHH`.
///
/// The backslash itself becomes `\x5c`, so [`unescape`] gives back the same bytes. Characters that hide or
/// reorder the text around them count as unprintable; the list is fixed, so the text of a name never changes.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let push_hex = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            text.push_str("\\x");
            text.push_str(&hex(&[*byte]));
        }
    };
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if is_printable(letter) {
                text.push(letter);
            } else {
                push_hex(&mut text, letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        push_hex(&mut text, chunk.invalid());
    }
    text
}

fn is_printable(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter, '\\' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns the bytes whose [`escape`] is `text`, or `None` if there are none.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let digits = after.strip_prefix('x')?.get(..2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[3..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    (escape(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(name: &str, byte: u8) -> Entry {
        let what = What::File { exec: byte & 1 == 1, size: u64::from(byte), id: object_id(&[byte]) };
        Entry { name: name.into(), what }
    }

    fn leaf(entries: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut writer = Writer::new();
        begin(&mut writer, 3, "tree").text("entries").array(entries.len());
        for (name, target) in entries {
            writer.array(3).uint(3).byte_string(name).byte_string(target);
        }
        writer.finish()
    }

    fn sample() -> Vec<Entry> {
        vec![
            Entry { name: b"sub".to_vec(), what: What::Dir(object_id(b"dir")) },
            file("run.sh", 1),
            file("a", 2),
            Entry { name: b"last\xff".to_vec(), what: What::Link(b"../a".to_vec()) },
        ]
    }

    #[test]
    fn ids_are_pinned() {
        let nodes = build_node(sample()).unwrap();
        assert_eq!(nodes[0].0.to_hex(), "4928afc6e6c4e11d14f195f2b906de6ab3607e52b74ed203b188a06384a1225d");
        let sums = build_sums(&build_node(vec![file("a", 2), file("b", 3)]).unwrap(), &|id| {
            Some(Sha256::from_bytes(*id.as_bytes()))
        });
        assert_eq!(
            sums.unwrap()[0].0.to_hex(),
            "79267285d03e66c5e7c0470676d4d369ff021a88727617d12d99a8d5b173d828"
        );
        let tensors = Tensors {
            tensors: vec![
                Tensor { name: "w".into(), dtype: "F32".into(), shape: vec![300, 2], id: object_id(b"w") },
                Tensor { name: "b".into(), dtype: "I64".into(), shape: vec![], id: object_id(b"b") },
            ],
        };
        assert_eq!(
            tensors.encode().unwrap().0.to_hex(),
            "235bf9f5b56bc6b62273cf7e1d833cf98a8edadc62c5cfabe94b9b5c7a33c718"
        );
        let empty = build_node(vec![]).unwrap();
        assert_eq!(empty[0].0.to_hex(), "9121e0ee540efc56379d73b52d91d92874001c843e2ea165ca1fa2490297e186");
    }

    #[test]
    fn order_of_entries_does_not_matter_and_decoding_gives_them_back() {
        let mut entries = sample();
        let nodes = build_node(entries.clone()).unwrap();
        entries.reverse();
        assert_eq!(build_node(entries.clone()).unwrap(), nodes);
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(Node::decode(&nodes[0].1).unwrap(), Node::Leaf(entries));
    }

    #[test]
    fn names_that_no_directory_can_hold_are_refused() {
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
            let entry = Entry { name: name.to_vec(), what: What::Link(vec![]) };
            assert!(matches!(build_node(vec![entry]), Err(Error::Name { .. })), "{}", escape(name));
            assert!(
                matches!(Node::decode(&leaf(&[(name, b"")])), Err(Error::Name { .. })),
                "{}",
                escape(name)
            );
        }
        assert!(Node::decode(&leaf(&[(b"...", b"")])).is_ok());
    }

    #[test]
    fn a_name_twice_or_out_of_order_is_refused() {
        assert!(matches!(build_node(vec![file("a", 1), file("a", 2)]), Err(Error::Order { .. })));
        for names in [[b"a", b"a"], [b"b", b"a"]] {
            let bytes = leaf(&[(names[0], b""), (names[1], b"")]);
            assert!(matches!(Node::decode(&bytes), Err(Error::Order { .. })));
        }
    }

    #[test]
    fn every_other_form_of_a_node_is_refused() {
        let node = build_node(sample()).unwrap().pop().unwrap().1;
        for end in 0..node.len() {
            assert!(Node::decode(&node[..end]).is_err(), "cut at {end}");
        }
        let mut longer = node.clone();
        longer.push(0);
        assert!(Node::decode(&longer).is_err(), "a byte follows");
        let mut newer = node;
        newer[3] = 2;
        assert!(matches!(Node::decode(&newer), Err(Error::Version { found: 2, .. })));
        assert!(matches!(Sums::decode(&leaf(&[])), Err(Error::Kind { .. })));
        assert!(matches!(Tensors::decode(&leaf(&[])), Err(Error::Kind { .. })));
        let mut writer = Writer::new();
        begin(&mut writer, 3, "tree").text("entries").array(1).array(3).uint(4).byte_string(b"a");
        writer.byte_string(b"");
        assert!(matches!(Node::decode(&writer.finish()), Err(Error::EntryType { found: 4 })));
        let many: Vec<Vec<u8>> = (0..=MAX_LEAF).map(|i| format!("{i:05}").into_bytes()).collect();
        let many: Vec<(&[u8], &[u8])> = many.iter().map(|name| (&name[..], &b""[..])).collect();
        assert!(matches!(Node::decode(&leaf(&many)), Err(Error::TooManyEntries { found: 4097 })));
        assert!(Node::decode(&leaf(&many[1..])).is_ok());
    }

    fn loader(nodes: &[Object]) -> impl FnMut(ObjectId) -> Result<Vec<u8>, std::io::Error> {
        let map: HashMap<ObjectId, Vec<u8>> = nodes.iter().cloned().collect();
        move |id| map.get(&id).cloned().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    #[test]
    fn a_large_directory_is_split_by_the_set_only_and_listed_whole() {
        let entries: Vec<Entry> = (0..5000).map(|i| file(&format!("{i}"), (i % 7) as u8)).collect();
        let mut nodes = build_node(entries.clone()).unwrap();
        assert!(nodes.len() > 200);
        assert_eq!(nodes, build_node(entries.iter().rev().cloned().collect()).unwrap());
        let root = nodes.last().unwrap().0;
        assert_eq!(root.to_hex(), "70ec60df2a14756f645f4e6270f5063cbc9f2456b297cb425b352ddde4d59694");
        let listed = list(root, &mut loader(&nodes)).unwrap();
        assert_eq!(listed.len(), 5000);
        assert!(entries.iter().all(|entry| listed[&entry.name] == entry.what));

        let sums = build_sums(&nodes, &|id| Some(Sha256::from_bytes(*id.as_bytes()))).unwrap();
        let top = Sums::decode(&sums.last().unwrap().1).unwrap();
        let Node::Split(children) = Node::decode(&nodes.last().unwrap().1).unwrap() else {
            panic!("not split")
        };
        assert_eq!((top.tree, top.files.len(), top.below.len()), (root, 0, children.len()));

        nodes.remove(0);
        assert!(matches!(list(root, &mut loader(&nodes)), Err(ListError::Load { .. })));
        let at_limit = build_node(entries[..MAX_LEAF].to_vec()).unwrap();
        assert_eq!(at_limit.len(), 1, "the limit itself is not split");
    }

    #[test]
    fn a_split_that_breaks_the_rule_is_refused() {
        let split = |children: &[(u8, ObjectId)]| {
            let mut writer = Writer::new();
            begin(&mut writer, 3, "tree").text("split").array(children.len());
            for (byte, id) in children {
                writer.array(2).uint(u64::from(*byte)).byte_string(id.as_bytes());
            }
            seal(writer).unwrap()
        };
        assert!(matches!(Node::decode(&split(&[]).1), Err(Error::Split)), "no children");
        let child = build_node(vec![file("a", 1)]).unwrap().pop().unwrap();
        assert!(matches!(Node::decode(&split(&[(1, child.0), (1, child.0)]).1), Err(Error::Split)));
        let home = radix(b"a", 0).unwrap();
        let check = |root: &Object| {
            list(root.0, &mut loader(&[root.clone(), child.clone()])).map_err(|error| error.to_string())
        };
        assert!(check(&split(&[(home, child.0)])).is_err(), "too few entries to be split");
        assert!(check(&split(&[(home ^ 1, child.0)])).is_err(), "an entry under the wrong child");
        assert!(check(&child).is_ok());
    }

    #[test]
    fn hostile_trees_end() {
        // Each level names the one below a thousand times: 10^30 paths in ten small nodes.
        let mut nodes = build_node(vec![]).unwrap();
        for _ in 0..10 {
            let below = What::Dir(nodes.last().unwrap().0);
            let entries = (0..1000).map(|i| Entry { name: format!("{i}").into(), what: below.clone() });
            nodes.extend(build_node(entries.collect()).unwrap());
        }
        let root = nodes.last().unwrap().0;
        let result =
            |limits| list_within(limits, root, &mut loader(&nodes)).map_err(|error| error.to_string());
        let few = Limits { entries: 20_000, ..LIMITS };
        assert_eq!(result(few), Err("the tree has more than 20000 entries".into()));
        let short = Limits { path_bytes: 20_000, ..LIMITS };
        assert_eq!(result(short), Err("the tree has more than 20000 bytes of paths".into()));

        let mut nodes = build_node(vec![]).unwrap();
        for _ in 0..LIMITS.levels {
            let what = What::Dir(nodes.last().unwrap().0);
            nodes.extend(build_node(vec![Entry { name: b"d".to_vec(), what }]).unwrap());
        }
        let result = list(nodes.last().unwrap().0, &mut loader(&nodes));
        assert!(matches!(result, Err(ListError::TooLarge { what: "levels", .. })));
        assert!(list(nodes[LIMITS.levels - 1].0, &mut loader(&nodes)).is_ok());
    }

    #[test]
    fn sums_need_every_digest() {
        let nodes = build_node(vec![file("a", 1)]).unwrap();
        assert!(matches!(build_sums(&nodes, &|_| None), Err(Error::NotGiven { .. })));
        let dir = build_node(vec![Entry { name: b"d".to_vec(), what: What::Dir(nodes[0].0) }]).unwrap();
        let known = |id: ObjectId| Some(Sha256::from_bytes(*id.as_bytes()));
        assert!(
            matches!(build_sums(&dir, &known), Err(Error::NotGiven { .. })),
            "the child's sums come first"
        );
        let both = [nodes, dir].concat();
        let sums = build_sums(&both, &known).unwrap();
        let top = Sums::decode(&sums[1].1).unwrap();
        assert_eq!((top.tree, top.below), (both[1].0, vec![sums[0].0]));
    }

    #[test]
    fn tensors_are_sorted_and_named_once() {
        let tensor = |name: &str| Tensor {
            name: name.into(),
            dtype: "F32".into(),
            shape: vec![u64::MAX],
            id: object_id(name.as_bytes()),
        };
        let (_, bytes) = Tensors { tensors: vec![tensor("b"), tensor("a")] }.encode().unwrap();
        assert_eq!(Tensors::decode(&bytes).unwrap().tensors, [tensor("a"), tensor("b")]);
        assert!(matches!(
            Tensors { tensors: vec![tensor("a"), tensor("a")] }.encode(),
            Err(Error::Order { .. })
        ));
        let swapped = bytes.iter().map(|byte| if *byte == b'a' { b'z' } else { *byte }).collect::<Vec<_>>();
        assert!(Tensors::decode(&swapped).is_err());
    }

    #[test]
    fn escapes_show_what_cannot_be_printed() {
        let printable = "mod\u{e8}le/\u{3b1}.bin";
        assert_eq!(escape(printable.as_bytes()), printable);
        assert_eq!(escape(b"a\nb\\c\xff\xc3"), "a\\x0ab\\x5cc\\xff\\xc3");
        assert_eq!(escape("a\u{202e}b".as_bytes()), "a\\xe2\\x80\\xaeb");
        for bad in [
            "\\",
            "\\x",
            "\\x4",
            "\\x4g",
            "\\xFF",
            "\\x41",
            "\\xc3\\xa8",
            "\\n",
            "a\nb",
            "\\x+f",
            "\\x\u{e9}",
        ] {
            assert_eq!(unescape(bad), None, "{bad:?} is no text of any name");
        }
    }

    proptest! {
        #[test]
        fn escapes_are_reversible(bytes: Vec<u8>) {
            prop_assert_eq!(unescape(&escape(&bytes)), Some(bytes));
        }

        #[test]
        fn a_changed_node_is_refused_or_another_node(at: prop::sample::Index, byte: u8) {
            let mut bytes = build_node(sample()).unwrap().pop().unwrap().1;
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(Node::Leaf(entries)) = Node::decode(&bytes) {
                prop_assert_eq!(&build_node(entries).unwrap()[0].1, &bytes);
            }
        }
    }
}
