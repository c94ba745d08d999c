//! The machine below a run: processor, memory, accelerators with their driver, kernel, and what contains it.
//!
//! All of it is read from files of the kernel and of container tools; no tool is started. `top` stands for `/`,
//! so that a test can lay a machine of its own. What names one single machine, as serial numbers, host names and
//! bus addresses do, is not read.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// More than is ever needed of a file of the kernel.
const MAX_SIZE: u64 = 1 << 20;

/// What a run computes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Release of the kernel, as `6.1.0-18-amd64`.
    pub kernel: Option<String>,
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Processors that this process may use.
    pub cores: Option<u64>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Version of the accelerators' driver, as `nvidia 550.54.15`.
    pub driver: Option<String>,
    /// Models of the accelerators, one for each.
    pub gpus: Vec<String>,
}

/// What a process is contained in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// `docker`, `podman`, `apptainer`, `enroot`, `kubernetes`, or `container` where only that is known.
    pub kind: &'static str,
    /// Digest of the image as `sha256:..`, where a variable states it.
    pub image: Option<String>,
}

/// Reads what the kernel tells of the machine.
pub fn observe_machine(top: &Path) -> Machine {
    let cpuinfo = text(&top.join("proc/cpuinfo")).unwrap_or_default();
    // x86 has a line for each core; on other processors the parts' numbers are all there is.
    let cpu = value(&cpuinfo, "model name").or_else(|| value(&cpuinfo, "Model")).or_else(|| {
        let part = value(&cpuinfo, "CPU part")?;
        Some(format!("implementer {} part {part}", value(&cpuinfo, "CPU implementer")?))
    });
    let memory = text(&top.join("proc/meminfo")).and_then(|text| value(&text, "MemTotal"));
    let memory = memory.and_then(|text| text.strip_suffix("kB")?.trim().parse::<u64>().ok());
    let nvidia = top.join("proc/driver/nvidia");
    let mut driver = text(&nvidia.join("version")).and_then(|text| nvidia_version(&text));
    let models = children(&nvidia.join("gpus"))
        .into_iter()
        .filter_map(|gpu| value(&text(&gpu.join("information"))?, "Model"));
    let mut gpus: Vec<String> = models.collect();
    let amd: Vec<String> =
        children(&top.join("sys/class/drm")).into_iter().filter_map(|card| amd(&card)).collect();
    if !amd.is_empty() {
        let version = text(&top.join("sys/module/amdgpu/version"));
        driver = driver.or_else(|| Some(format!("amdgpu {}", version?.trim())));
        gpus.extend(amd);
    }
    Machine {
        kernel: text(&top.join("proc/sys/kernel/osrelease")).map(|text| text.trim().to_owned()),
        cpu,
        cores: std::thread::available_parallelism().ok().map(|cores| cores.get() as u64),
        memory: memory.map(|kib| kib * 1024),
        driver,
        gpus,
    }
}

/// Finds out what contains this process; `None` where nothing tells that anything does.
pub fn observe_container(top: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Option<Container> {
    let has = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let kind = if ["APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "SINGULARITY_NAME"].into_iter().any(has)
        || top.join(".singularity.d").is_dir()
    {
        Some("apptainer")
    } else if ["ENROOT_ROOTFS", "ENROOT_VERSION"].into_iter().any(has) {
        Some("enroot")
    } else if has("KUBERNETES_SERVICE_HOST") {
        Some("kubernetes")
    } else if top.join("run/.containerenv").exists() {
        Some("podman")
    } else if top.join(".dockerenv").exists() {
        Some("docker")
    } else {
        by_cgroup(&text(&top.join("proc/1/cgroup")).unwrap_or_default())
            .or_else(|| variable("container").filter(|word| !word.is_empty()).map(|_| "container"))
    };
    let kind = kind?;
    let image = IMAGES.iter().filter_map(|name| variable(name)).find_map(|value| image_digest(&value));
    let image = image.or_else(|| {
        let env = text(&top.join("run/.containerenv"))?;
        env.lines().find_map(|line| image_digest(line.strip_prefix("imageid=")?))
    });
    Some(Container { kind, image })
}

/// Variables in which images are named, sometimes with their digest.
const IMAGES: [&str; 6] = [
    "IMAGE_DIGEST",
    "CONTAINER_IMAGE_DIGEST",
    "CONTAINER_IMAGE",
    "CI_JOB_IMAGE",
    "APPTAINER_CONTAINER",
    "SINGULARITY_CONTAINER",
];

/// Takes the digest out of `name@sha256:<64 hex>`; a name or tag alone says nothing of the content.
fn image_digest(text: &str) -> Option<String> {
    let text = text.trim().trim_matches('"');
    let digits = match text.rsplit_once("sha256:") {
        Some((_, digits)) => digits,
        None => text,
    };
    let is_digest = digits.len() == 64 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_digest.then(|| format!("sha256:{digits}"))
}

fn by_cgroup(cgroups: &str) -> Option<&'static str> {
    [
        ("kubepods", "kubernetes"),
        ("/docker", "docker"),
        ("docker-", "docker"),
        ("libpod", "podman"),
        ("lxc", "container"),
    ]
    .iter()
    .find(|(mark, _)| cgroups.contains(mark))
    .map(|(_, kind)| *kind)
}

/// Takes `550.54.15` out of `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...`.
fn nvidia_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    let is_version = |word: &&str| {
        word.contains('.') && word.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    Some(format!("nvidia {}", line.split_whitespace().find(is_version)?))
}

/// Reads a card of AMD's; the connectors of a card have directories beside it, and no vendor.
fn amd(card: &Path) -> Option<String> {
    let name = card.file_name()?.to_str()?.strip_prefix("card")?;
    if !name.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let device = card.join("device");
    let line = |name: &str| text(&device.join(name)).map(|text| text.trim().to_owned());
    if line("vendor")? != "0x1002" {
        return None;
    }
    let named = line("product_name").filter(|name| !name.is_empty());
    named.or_else(|| Some(format!("AMD {}", line("device")?)))
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn text(path: &Path) -> Option<String> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_SIZE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the value behind the first `name :` of a text.
fn value(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let found = pairs.find(|(key, _)| key.trim() == name)?.1.trim();
    let plain = found.split_whitespace().collect::<Vec<_>>().join(" ");
    (!plain.is_empty()).then_some(plain)
}

/// Launchers, and how a process is known to be theirs.
const LAUNCHERS: [(&str, &[&str]); 5] = [
    ("torchrun", &["TORCHELASTIC_RUN_ID"]),
    ("slurm", &["SLURM_JOB_ID"]),
    ("openmpi", &["OMPI_COMM_WORLD_SIZE"]),
    ("mpi", &["PMI_SIZE"]),
    ("environment", &["WORLD_SIZE"]),
];

/// Variables that say how a job is spread or what its numbers come out as, by the word that records hold.
///
/// They are facts of the run, and say nothing of people or machines. Job numbers, ports and interfaces are
/// kept apart with what is private.
const FACTS: [(&str, &str); 31] = [
    ("accelerate_mixed_precision", "ACCELERATE_MIXED_PRECISION"),
    ("cublas_workspace", "CUBLAS_WORKSPACE_CONFIG"),
    ("cuda_visible_devices", "CUDA_VISIBLE_DEVICES"),
    ("group_rank", "GROUP_RANK"),
    ("hip_visible_devices", "HIP_VISIBLE_DEVICES"),
    ("jax_enable_x64", "JAX_ENABLE_X64"),
    ("jax_matmul_precision", "JAX_DEFAULT_MATMUL_PRECISION"),
    ("local_rank", "LOCAL_RANK"),
    ("local_world_size", "LOCAL_WORLD_SIZE"),
    ("mkl_cbwr", "MKL_CBWR"),
    ("nccl_algo", "NCCL_ALGO"),
    ("nccl_proto", "NCCL_PROTO"),
    ("node_rank", "NODE_RANK"),
    ("ngc_build", "NVIDIA_BUILD_ID"),
    ("ngc_pytorch", "NVIDIA_PYTORCH_VERSION"),
    ("nvidia_tf32_override", "NVIDIA_TF32_OVERRIDE"),
    ("omp_threads", "OMP_NUM_THREADS"),
    ("python_hash_seed", "PYTHONHASHSEED"),
    ("rank", "RANK"),
    ("rocr_visible_devices", "ROCR_VISIBLE_DEVICES"),
    ("slurm_array_task", "SLURM_ARRAY_TASK_ID"),
    ("slurm_cpus_per_task", "SLURM_CPUS_PER_TASK"),
    ("slurm_gpus_on_node", "SLURM_GPUS_ON_NODE"),
    ("slurm_nodes", "SLURM_NNODES"),
    ("slurm_restarts", "SLURM_RESTART_COUNT"),
    ("slurm_tasks", "SLURM_NTASKS"),
    ("tf_deterministic_ops", "TF_DETERMINISTIC_OPS"),
    ("torch_restarts", "TORCHELASTIC_RESTART_COUNT"),
    ("use_deepspeed", "ACCELERATE_USE_DEEPSPEED"),
    ("use_fsdp", "ACCELERATE_USE_FSDP"),
    ("world_size", "WORLD_SIZE"),
];

/// Picks the facts of how a run was launched out of variables that may be recorded; sorted by word.
pub fn launch_facts(allowed: &[(String, String)]) -> Vec<(String, String)> {
    let variable = |name: &str| {
        let found = allowed.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        allowed.get(found).map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    };
    let mut facts: Vec<(String, String)> =
        FACTS.iter().filter_map(|(word, name)| Some(((*word).to_owned(), variable(name)?))).collect();
    // What a fact may hold is short; a path or an address is neither.
    facts.retain(|(_, value)| value.len() <= 256 && !value.contains(['/', '@', '\n']));
    let is_by = |(_, names): &&(&str, &[&str])| names.iter().any(|name| variable(name).is_some());
    if let Some((launcher, _)) = LAUNCHERS.iter().find(is_by) {
        facts.push(("launcher".to_owned(), (*launcher).to_owned()));
    }
    facts.sort();
    facts
}

/// Reads a variable as text.
pub fn text_of(variables: &[(std::ffi::OsString, std::ffi::OsString)], name: &str) -> Option<String> {
    let found = variables.iter().find(|(known, _)| known == OsStr::new(name))?;
    found.1.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use super::*;

    fn lay(top: &Path, name: &str, text: &str) {
        let path = top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn a_machine_with_accelerators_is_described() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path();
        lay(top, "proc/cpuinfo", "processor\t: 0\nmodel name\t: Some  CPU @ 2.10GHz\n\nprocessor\t: 1\n");
        lay(top, "proc/meminfo", "MemTotal:        1024 kB\nMemFree: 1 kB\n");
        lay(top, "proc/sys/kernel/osrelease", "6.1.0\n");
        let version =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n";
        lay(top, "proc/driver/nvidia/version", version);
        for bus in ["0000:07:00.0", "0000:0f:00.0"] {
            let text =
                format!("Model: \t\t NVIDIA A100-SXM4-80GB\nGPU UUID: \t GPU-00ff\nBus Location: \t {bus}\n");
            lay(top, &format!("proc/driver/nvidia/gpus/{bus}/information"), &text);
        }
        let found = observe_machine(top);
        assert_eq!(found.cpu.as_deref(), Some("Some CPU @ 2.10GHz"));
        assert_eq!((found.memory, found.kernel.as_deref()), (Some(1 << 20), Some("6.1.0")));
        assert_eq!(found.driver.as_deref(), Some("nvidia 550.54.15"));
        assert_eq!(found.gpus, ["NVIDIA A100-SXM4-80GB"; 2]);
        let told = format!("{found:?}");
        assert!(
            !told.contains("00ff") && !told.contains("07:00"),
            "what names one machine is left out: {told}"
        );
    }

    #[test]
    fn cards_of_amd_are_read_from_sysfs() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path();
        for (card, vendor, name) in [
            ("card0", "0x1002", "AMD Instinct MI300X"),
            ("card1", "0x1002", ""),
            ("card2", "0x8086", "other"),
        ] {
            lay(top, &format!("sys/class/drm/{card}/device/vendor"), &format!("{vendor}\n"));
            lay(top, &format!("sys/class/drm/{card}/device/device"), "0x740f\n");
            lay(top, &format!("sys/class/drm/{card}/device/product_name"), name);
        }
        lay(top, "sys/class/drm/card0-DP-1/device/vendor", "0x1002\n");
        lay(top, "sys/module/amdgpu/version", "6.7.0\n");
        let found = observe_machine(top);
        assert_eq!(found.gpus, ["AMD Instinct MI300X", "AMD 0x740f"]);
        assert_eq!(found.driver.as_deref(), Some("amdgpu 6.7.0"));
    }

    #[test]
    fn an_empty_machine_has_no_answers_and_no_errors() {
        let top = tempfile::tempdir().unwrap();
        let found = observe_machine(top.path());
        assert_eq!((found.cpu, found.memory, found.driver, found.gpus.len()), (None, None, None, 0));
        assert_eq!(observe_container(top.path(), &nothing), None);
    }

    #[test]
    fn containers_are_known_by_what_they_leave() {
        for (file, text, kind) in [
            (".dockerenv", "", "docker"),
            ("run/.containerenv", "", "podman"),
            (".singularity.d/labels.json", "{}", "apptainer"),
            ("proc/1/cgroup", "0::/kubepods.slice/x\n", "kubernetes"),
            ("proc/1/cgroup", "0::/system.slice/docker-00ff.scope\n", "docker"),
        ] {
            let top = tempfile::tempdir().unwrap();
            lay(top.path(), file, text);
            let found = observe_container(top.path(), &nothing).unwrap();
            assert_eq!((found.kind, found.image), (kind, None), "{file}");
        }
        let top = tempfile::tempdir().unwrap();
        lay(top.path(), "proc/1/cgroup", "0::/init.scope\n");
        assert_eq!(observe_container(top.path(), &nothing), None);
        let digest = "ab".repeat(32);
        let by = |name: &str, text: &str| {
            let (name, text) = (name.to_owned(), text.to_owned());
            observe_container(top.path(), &move |asked| (asked == name).then(|| text.clone()))
        };
        let path = by("APPTAINER_CONTAINER", "/home/somebody/x.sif").unwrap();
        assert_eq!((path.kind, path.image), ("apptainer", None), "a path is no digest, and is not kept");
        let named = by("SINGULARITY_CONTAINER", &format!("docker://host/x@sha256:{digest}")).unwrap();
        assert_eq!(named.image, Some(format!("sha256:{digest}")));
    }

    #[test]
    fn a_launch_is_told_by_facts_that_name_nobody() {
        let given: Vec<(String, String)> = [
            ("CUDA_VISIBLE_DEVICES", "0,1"),
            ("LOCAL_WORLD_SIZE", "2"),
            ("NCCL_SOCKET_IFNAME", "ib0"),
            ("OMP_NUM_THREADS", ""),
            ("SLURM_JOB_ID", "4711"),
            ("SLURM_NNODES", "4"),
            ("TORCHELASTIC_RUN_ID", "abc"),
            ("WORLD_SIZE", "8"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        let facts = launch_facts(&given);
        let told: Vec<String> = facts.iter().map(|(word, value)| format!("{word}={value}")).collect();
        assert_eq!(
            told,
            [
                "cuda_visible_devices=0,1",
                "launcher=torchrun",
                "local_world_size=2",
                "slurm_nodes=4",
                "world_size=8"
            ]
        );
        assert_eq!(launch_facts(&[]), []);
    }
}
