//! Secrets kept out: which variables may be recorded at all, and what is struck from command lines.
//!
//! Variables pass by an allow-list only. Command lines cannot, so names that announce a secret and values
//! that have the shape of one are struck. Striking too much costs a word in a record; striking too little
//! cannot be taken back, for a log is append-only.

use std::ffi::OsString;

/// What stands where a secret was.
const STRUCK: &str = "<redacted>";

/// Variables that change what a training run computes or say where in a job it runs.
const ALLOWED: &[&str] = &[
    "ACCELERATE_MIXED_PRECISION",
    "ACCELERATE_USE_DEEPSPEED",
    "ACCELERATE_USE_FSDP",
    "CONDA_DEFAULT_ENV",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "HF_DATASETS_OFFLINE",
    "HF_HUB_OFFLINE",
    "HIP_VISIBLE_DEVICES",
    "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_ENABLE_X64",
    "JAX_PLATFORMS",
    "LANG",
    "LC_ALL",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_PORT",
    "MKL_CBWR",
    "MKL_NUM_THREADS",
    "NODE_RANK",
    "NUMEXPR_NUM_THREADS",
    "NVIDIA_BUILD_ID",
    "NVIDIA_PYTORCH_VERSION",
    "NVIDIA_TF32_OVERRIDE",
    "NVIDIA_VISIBLE_DEVICES",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OPENBLAS_NUM_THREADS",
    "PMI_RANK",
    "PMI_SIZE",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONNOUSERSITE",
    "PYTHONOPTIMIZE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ENABLE_MPS_FALLBACK",
    "RANK",
    "ROCR_VISIBLE_DEVICES",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS_ON_NODE",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_PARTITION",
    "SLURM_LOCALID",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_PROCID",
    "SLURM_RESTART_COUNT",
    "TF_CUDNN_DETERMINISTIC",
    "TF_DETERMINISTIC_OPS",
    "TF_ENABLE_ONEDNN_OPTS",
    "TOKENIZERS_PARALLELISM",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_RUN_ID",
    "TRANSFORMERS_OFFLINE",
    "TZ",
    "WORLD_SIZE",
    "XLA_FLAGS",
];

/// Families of such variables.
const ALLOWED_PREFIXES: &[&str] =
    &["CUDNN_", "GLOO_", "KMP_", "NCCL_", "NVTE_", "RCCL_", "SLURM_ARRAY_", "TORCH_NCCL_", "TORCHINDUCTOR_"];

/// Words that announce a secret wherever they stand in a name.
const SECRET_WORDS: &[&str] = &[
    "APIKEY",
    "AUTH",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "CREDENTIAL",
    "CREDENTIALS",
    "DSN",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PASSWORDS",
    "PAT",
    "PRIVATE",
    "PWD",
    "SECRET",
    "SECRETS",
    "SIG",
    "SIGNATURE",
];

/// Endings of words written together: `WANDBAPIKEY`, `authtoken`.
const SECRET_ENDINGS: &[&str] =
    &["APIKEY", "ACCESSKEY", "AUTHTOKEN", "PASSWORD", "PASSWD", "SECRET", "ACCESSTOKEN"];

/// Words in front of `TOKEN` that make it a piece of text.
const TEXT_TOKENS: &[&str] = &[
    "AUDIO", "BOS", "CLS", "DECODER", "END", "EOS", "EOT", "FORCED", "IMAGE", "MASK", "MAX", "MIN", "NUM",
    "PAD", "PER", "SEP", "SPECIAL", "START", "STOP", "UNK", "VIDEO",
];

/// Words behind `TOKEN` that make it a piece of text.
const OF_TOKENS: &[&str] =
    &["BUDGET", "COUNT", "DIM", "DROPOUT", "EMBEDDING", "ID", "IDS", "INDEX", "LENGTH", "LIMIT", "TYPE"];

/// Words beside `KEY` that make it the name of a column or a part of a network.
const DATA_KEYS: &[&str] = &[
    "AUDIO",
    "COLUMN",
    "DATA",
    "DATASET",
    "DIM",
    "DIMS",
    "FIELD",
    "GROUP",
    "HEADS",
    "IMAGE",
    "INPUT",
    "LABEL",
    "LAYER",
    "METRIC",
    "MONITOR",
    "NAME",
    "NUM",
    "OUTPUT",
    "PARTITION",
    "PRIMARY",
    "PROMPT",
    "PUBLIC",
    "QUERY",
    "SIZE",
    "SORT",
    "TARGET",
    "TEXT",
    "VALUE",
    "VALUES",
];

/// Tells whether a variable, flag or key announces a secret.
pub fn is_secret_name(name: &str) -> bool {
    if matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let words = words_of(name);
    let beside = |at: usize, list: &[&str]| {
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        before.into_iter().chain(words.get(at + 1)).any(|word| list.contains(&word.as_str()))
    };
    words.iter().enumerate().any(|(at, word)| match word.as_str() {
        "TOKEN" => {
            let before = at > 0 && TEXT_TOKENS.contains(&words[at - 1].as_str());
            let behind = words.get(at + 1).is_some_and(|word| OF_TOKENS.contains(&word.as_str()));
            !before && !behind
        }
        "KEY" | "KEYS" => !beside(at, DATA_KEYS),
        word => SECRET_WORDS.contains(&word) || SECRET_ENDINGS.iter().any(|ending| word.ends_with(ending)),
    })
}

/// Takes the variables that matter for a run and hold no secret, sorted by name.
pub fn allowed_variables(variables: &[(OsString, OsString)]) -> Vec<(String, String)> {
    let mut allowed: Vec<(String, String)> = variables
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
        .filter(|(name, value)| {
            let listed = ALLOWED.contains(&name.as_str())
                || ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            listed && !is_secret_name(name) && redact_text(value) == *value
        })
        .collect();
    allowed.sort();
    allowed.dedup_by(|a, b| a.0 == b.0);
    allowed
}

/// Strikes what could be a secret from a command line.
pub fn redact_argv(argv: &[String]) -> Vec<String> {
    let mut announced = false;
    argv.iter()
        .map(|word| {
            if std::mem::take(&mut announced) && !is_flag(word) {
                return STRUCK.to_owned();
            }
            announced = is_flag(word) && !word.contains(['=', ' ', ':']) && is_secret_name(word);
            redact_text(word)
        })
        .collect()
}

fn is_flag(word: &str) -> bool {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-').filter(|name| name.len() == 1));
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Strikes secrets from running text: a word of argv, which may be a whole script.
pub fn redact_text(text: &str) -> String {
    if text.contains("PRIVATE KEY-----") {
        return STRUCK.to_owned();
    }
    let text = strike_logins(text);
    let mut out = String::with_capacity(text.len());
    let mut announced = false;
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = rest.find(is_separator).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if !word.is_empty() {
            redact_word(&mut out, word, &mut announced);
        }
        let end = after.find(|c| !is_separator(c)).unwrap_or(after.len());
        let (separators, after) = after.split_at(end);
        // A new command or parameter ends what a name has announced.
        if separators.contains([';', '&', '|', ',', '\n']) {
            announced = false;
        }
        out.push_str(separators);
        rest = after;
    }
    out
}

fn is_separator(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '"' | '\'' | '`' | ';' | ',' | '&' | '?' | '|' | '(' | ')' | '{' | '}' | '[' | ']')
}

/// Writes one word, struck as a whole or behind its `=` or `:`.
fn redact_word(out: &mut String, word: &str, announced: &mut bool) {
    if word == STRUCK {
        *announced = false;
        out.push_str(word);
        return;
    }
    // In JSON a lone `:` or `=` stands between a name and its value.
    if matches!(word, ":" | "=") {
        out.push_str(word);
        return;
    }
    if std::mem::take(announced) && !is_flag(word) {
        let lead = usize::from(word.starts_with([':', '=']));
        out.push_str(&word[..lead]);
        // `Authorization: Bearer X` announces twice.
        *announced = is_scheme(&word[lead..]);
        out.push_str(STRUCK);
        return;
    }
    let split = word.find(['=', ':']).filter(|at| !word[*at..].starts_with("://"));
    if let Some(at) = split {
        let (name, value) = (&word[..at], &word[at + 1..]);
        out.push_str(&word[..=at]);
        if is_secret_name(name) {
            if value.is_empty() || is_scheme(value) {
                *announced = true;
                out.push_str(value);
            } else {
                out.push_str(STRUCK);
            }
        } else if !value.is_empty() {
            redact_word(out, value, announced);
        }
        return;
    }
    if looks_secret(word) {
        out.push_str(STRUCK);
        return;
    }
    *announced = is_scheme(word) || is_announcement(word);
    out.push_str(word);
}

/// A flag or a bare name, in a script or a JSON text, whose value comes next.
fn is_announcement(word: &str) -> bool {
    let bare = word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    bare && is_secret_name(word)
}

fn is_scheme(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic")
}

/// Strikes the login from every address: `https://user:pw@host` keeps scheme and host.
fn strike_logins(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>'))
            .unwrap_or(after.len());
        rest = after;
        // The last `@` is the one before the host: a password may hold others.
        if let Some(login) = after[..end].rfind('@') {
            out.push_str(STRUCK);
            rest = &after[login..];
        }
    }
    out.push_str(rest);
    out
}

/// Tells whether a word has the shape of an access token of a service that training jobs talk to.
fn looks_secret(word: &str) -> bool {
    let alphanumeric = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric());
    let wordy =
        |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    let digit = |text: &str| text.bytes().any(|b| b.is_ascii_digit());
    // Letters and digits only behind the prefix.
    let dense: &[&str] = &["hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "npm_", "gsk_", "r8_", "api_org_"];
    // With marks between them, so longer before they count.
    let loose: &[&str] = &[
        "github_pat_",
        "glpat-",
        "sk-",
        "sk_live_",
        "rk_live_",
        "xoxb-",
        "xoxp-",
        "xoxa-",
        "pypi-",
        "nvapi-",
        "ya29.",
        "AIza",
        "dckr_pat_",
        "wandb_v1_",
    ];
    let shaped = |word: &str| {
        let tail = |prefixes: &[&str]| {
            prefixes.iter().find_map(|prefix| word.strip_prefix(prefix)).map(str::to_owned)
        };
        tail(dense).is_some_and(|tail| tail.len() >= 16 && alphanumeric(&tail))
            || tail(loose).is_some_and(|tail| tail.len() >= 16 && wordy(&tail) && digit(&tail))
    };
    let key_id = |word: &str| {
        word.len() == 20
            && (word.starts_with("AKIA") || word.starts_with("ASIA"))
            && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
    };
    let web_token = |word: &str| word.len() > 40 && word.starts_with("eyJ") && word.matches('.').count() == 2;
    // A path or an address may end in one.
    word.split(['/', '@', '<', '>', '#', '\\', '$', '%', '+'])
        .any(|part| shaped(part) || key_id(part) || web_token(part))
}

/// Splits a name into upper-case words, at marks and at humps.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut low_before = false;
    for c in name.chars() {
        let hump = c.is_ascii_uppercase() && low_before;
        if hump || !c.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            word.push(c.to_ascii_uppercase());
        }
        low_before = c.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    fn redacted(words: &[&str]) -> Vec<String> {
        redact_argv(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    /// Strings of the right shape that open nothing; in two parts, so that no scanner takes them for real.
    fn planted() -> Vec<String> {
        [
            ("hf_", "abcdefghijKLMNOPqrstUVWX"),
            ("ghp_", "0123456789abcdefghij0123456789abcdef"),
            ("github_pat_", "11ABCDEFG0_abcdefghij0123456789"),
            ("AKIA", "ABCDEFGHIJKLMNOP"),
            ("sk-", "proj-abc123def456ghi789"),
            ("eyJhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl"),
        ]
        .map(|(prefix, tail)| format!("{prefix}{tail}"))
        .to_vec()
    }

    #[test]
    fn names_that_announce_a_secret() {
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "HF_TOKEN",
            "WANDB_API_KEY",
            "apiKey",
            "--api-key",
            "--password",
            "DB_PASSWORD",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "LEDGER_KEY",
            "authToken",
            "--hub_token",
            "X-Amz-Signature",
            "sig",
            "ssh-key",
            "dbpassword",
            "+wandb.api_key",
            "NCCL_SECRET",
            "token",
            "Authorization",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "TOKENIZERS_PARALLELISM",
            "PWD",
            "--max-tokens",
            "--pad-token",
            "eos_token_id",
            "--token-budget",
            "tokenizer",
            "--text-key",
            "key_dim",
            "monkey",
            "--keyboard",
            "optim.lr",
            "author",
            "--num-key-value-heads",
            "",
            "seed",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn only_listed_variables_pass() {
        let mut given = variables(&[
            ("PYTHONHASHSEED", "0"),
            ("CUDA_VISIBLE_DEVICES", "0,1"),
            ("TOKENIZERS_PARALLELISM", "false"),
            ("NCCL_DEBUG", "INFO"),
            ("SLURM_ARRAY_TASK_ID", "3"),
            ("XLA_FLAGS", "--xla_gpu_deterministic_ops=true"),
            ("HOME", "/home/somebody"),
            ("USER", "somebody"),
            ("AWS_SECRET_ACCESS_KEY", "planted-secret"),
            ("HF_TOKEN", "planted-secret"),
            ("NCCL_AUTH_TOKEN", "planted-secret"),
            ("SLURM_ARRAY_API_KEY", "planted-secret"),
            ("NCCL_CONF", "https://user:planted-secret@host/x"),
            ("NCCL_OTHER", "password=planted-secret"),
        ]);
        for (at, token) in planted().into_iter().enumerate() {
            given.push((OsString::from(format!("NCCL_NET_{at}")), OsString::from(token)));
        }
        let allowed = allowed_variables(&given);
        let names: Vec<&str> = allowed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "CUDA_VISIBLE_DEVICES",
                "NCCL_DEBUG",
                "PYTHONHASHSEED",
                "SLURM_ARRAY_TASK_ID",
                "TOKENIZERS_PARALLELISM",
                "XLA_FLAGS"
            ]
        );
        assert!(!format!("{allowed:?}").contains("planted"));
    }

    #[test]
    fn a_variable_that_is_no_text_does_not_pass() {
        use std::os::unix::ffi::OsStringExt as _;
        let broken = OsString::from_vec(vec![0xff]);
        assert_eq!(allowed_variables(&[(OsString::from("TZ"), broken)]), []);
    }

    #[test]
    fn the_lists_are_sorted_and_hold_no_secret() {
        assert!(ALLOWED.is_sorted());
        assert!(ALLOWED.iter().all(|name| !is_secret_name(name)));
    }

    #[test]
    fn values_behind_secret_names_are_struck() {
        for (given, expected) in [
            (
                vec!["train.py", "--api-key", "planted", "--lr", "1"],
                vec!["train.py", "--api-key", STRUCK, "--lr", "1"],
            ),
            (vec!["--token=planted", "x"], vec!["--token=<redacted>", "x"]),
            (vec!["env", "HF_TOKEN=planted", "python"], vec!["env", "HF_TOKEN=<redacted>", "python"]),
            (vec!["+wandb.api_key=planted"], vec!["+wandb.api_key=<redacted>"]),
            (vec!["--password", "planted words"], vec!["--password", STRUCK]),
            (vec!["--use-auth-token", "--lr", "1"], vec!["--use-auth-token", "--lr", "1"]),
            (vec!["--token", "-planted"], vec!["--token", STRUCK]),
            (vec!["https://user:planted@host/x"], vec!["https://<redacted>@host/x"]),
            (vec!["--repo=git+https://planted@host/x.git"], vec!["--repo=git+https://<redacted>@host/x.git"]),
            (vec!["https://u:pl@nted@host?x=1"], vec!["https://<redacted>@host?x=1"]),
            (
                vec!["s3://bucket/x?X-Amz-Signature=planted&a=1"],
                vec!["s3://bucket/x?X-Amz-Signature=<redacted>&a=1"],
            ),
            (
                vec!["sh", "-c", "export HF_TOKEN=planted; run --password planted --lr 1"],
                vec!["sh", "-c", "export HF_TOKEN=<redacted>; run --password <redacted> --lr 1"],
            ),
            (vec!["-H", "Authorization: Bearer planted"], vec!["-H", "Authorization: <redacted> <redacted>"]),
            (vec!["{\"api_key\": \"planted\", \"lr\": 1}"], vec!["{\"api_key\": \"<redacted>\", \"lr\": 1}"]),
            (vec!["{api_key: planted, lr: 1}"], vec!["{api_key: <redacted>, lr: 1}"]),
            (vec!["export TOKEN=\"planted\" x"], vec!["export TOKEN=\"<redacted>\" x"]),
        ] {
            let found = redacted(&given);
            assert_eq!(found, expected);
            assert!(!found.concat().contains("planted") && !found.concat().contains("nted@"), "{found:?}");
        }
    }

    #[test]
    fn values_that_look_like_tokens_are_struck_anywhere() {
        for token in planted() {
            for around in
                ["X", "--x=X", "--name X", "sh -c 'run X'", "https://host/X/y", "[X]", "a:X", "user@X", "$X"]
            {
                let word = around.replace('X', &token);
                let found = redacted(&[&word]);
                assert!(!found[0].contains(&token[4..]), "{word} -> {found:?}");
            }
        }
        let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nplanted\n";
        assert_eq!(redacted(&[key]), [STRUCK]);
    }

    #[test]
    fn an_ordinary_command_line_stays_as_it_is() {
        for words in [
            vec!["python", "-m", "torch.distributed.run", "--nproc-per-node=8", "train.py", "optim.lr=1e-3"],
            vec!["accelerate", "launch", "--config_file", "conf/a.yaml", "train.py", "--max-tokens", "512"],
            vec!["train.py", "--pad-token", "<pad>", "--tokenizer", "hf_internal/tiny", "--text-key", "text"],
            vec!["sh", "-c", "cd sub && python train.py --betas '[0.9, 0.999]' | tee log.txt"],
            vec![
                "train.py",
                "model={hidden: 16, layers: 2}",
                "--commit",
                "0123456789abcdef0123456789abcdef01234567",
            ],
            vec![
                "wget",
                "https://host/data.tar?rev=main#x",
                "--sk-learn-compat",
                "hf_model_large_v2_finetuned",
            ],
        ] {
            assert_eq!(redacted(&words), words);
        }
    }
}
