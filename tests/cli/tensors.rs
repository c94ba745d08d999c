//! `ledger verify --by tensors` and `--extra`: the same weights in other files, and files that nobody recorded.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Person, World};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/checkpoints").join(name)
}

/// Copies a directory of the fixtures into the project.
pub(crate) fn copy(kim: &Person, from: &str, to: &str) {
    for entry in std::fs::read_dir(fixture(from)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        kim.lay(&format!("{to}/{name}"), &std::fs::read(&path).unwrap());
    }
}

/// A ledger in which one model of one file is recorded, `out`.
pub(crate) fn single() -> (World, Person) {
    let (world, kim) = World::founded();
    copy(&kim, "hf-single/model", "out");
    kim.id(&["-q", "record", "checkpoint", "out", "--run", "none"]);
    (world, kim)
}

/// The findings worse than a remark, as `kind at`, without what every checkpoint of no run has.
fn worse(document: &Value) -> Vec<String> {
    let findings = document["findings"].as_array().unwrap().iter();
    let worse = findings
        .filter(|one| !matches!(one["severity"].as_str(), Some("ok" | "skip")) && one["kind"] != "no-run");
    worse
        .map(|one| format!("{} {}", one["kind"].as_str().unwrap(), one["at"].as_str().unwrap_or("-")))
        .collect()
}

#[test]
fn equal_tensors_in_other_files_are_the_same_weights_where_that_is_asked() {
    let (_world, kim) = single();
    copy(&kim, "hf-sharded/model", "sharded");
    let by_bytes = kim.json(&["verify", "sharded"]);
    assert_eq!((&by_bytes["exit"], &by_bytes["by"]), (&1.into(), &Value::Null), "{by_bytes}");
    let by_tensors = kim.json(&["verify", "sharded", "--by", "tensors"]);
    assert_eq!((&by_tensors["exit"], &by_tensors["by"]), (&0.into(), &"tensors".into()), "{by_tensors}");
    assert_eq!(worse(&by_tensors), Vec::<String>::new());
    kim.run(&["verify", "sharded", "--by", "tensors"]).matches("verify/by-tensors");
    let exact = kim.json(&["verify", "out", "--by", "tensors"]);
    assert_eq!((&exact["exit"], &exact["by"]), (&0.into(), &"bytes".into()), "{exact}");

    // The other way round, and in one file under another name with other metadata.
    copy(&kim, "hf-resaved/metadata-order-a", "resaved");
    copy(&kim, "hf-resaved/metadata-order-b", "renamed");
    std::fs::rename(
        kim.project.join("renamed/model.safetensors"),
        kim.project.join("renamed/weights.safetensors"),
    )
    .unwrap();
    for name in ["resaved", "renamed"] {
        assert_eq!(kim.run(&["verify", name]).code, 3, "by bytes they share nothing");
        let found = kim.json(&["verify", name, "--by", "tensors"]);
        assert_eq!((&found["exit"], &found["by"]), (&0.into(), &"tensors".into()), "{found}");
        // Only the tensors are there, and what else was recorded is not.
        let gone = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"];
        assert_eq!(worse(&found), gone.map(|file| format!("other-files {file}")));
    }
}

#[test]
fn tensors_of_another_type_or_value_are_other_weights_and_are_named() {
    let (_world, kim) = single();
    copy(&kim, "hf-bf16/model", "bf16");
    for flags in [&["verify", "bf16"][..], &["verify", "bf16", "--by", "tensors"]] {
        let found = kim.json(flags);
        assert_eq!((&found["exit"], &found["by"]), (&1.into(), &Value::Null), "{found}");
    }
    let output = kim.run(&["verify", "bf16", "--by", "tensors"]);
    assert!(
        output.stdout.contains("0 of 21 tensors as recorded; ") && output.stdout.contains("F32 -> BF16"),
        "{output:?}"
    );
    assert!(!output.stdout.contains("--by tensors"), "that was asked already: {output:?}");
    let mut bytes = std::fs::read(kim.project.join("out/model.safetensors")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    copy(&kim, "hf-single/model", "other");
    kim.lay("other/model.safetensors", &bytes);
    let output = kim.run(&["verify", "other", "--by", "tensors"]);
    assert_eq!(output.code, 1);
    assert!(output.stdout.contains("20 of 21 tensors as recorded; "), "{output:?}");
    // A pickle beside them: which of the two a loader takes is not known, so nothing is said of the tensors.
    copy(&kim, "hf-sharded/model", "both");
    kim.lay("both/pytorch_model.bin", b"\x80\x02}q\x00.");
    let found = kim.json(&["verify", "both", "--by", "tensors"]);
    assert_eq!((&found["exit"], &found["by"]), (&1.into(), &Value::Null), "{found}");
    assert!(worse(&found).contains(&"extra-file pytorch_model.bin".to_owned()), "{found}");
}

#[test]
fn code_pickles_and_shards_that_nobody_recorded_are_refused_unless_it_is_said() {
    let (_world, kim) = single();
    let denied: [(&str, &[u8]); 6] = [
        ("modeling_tiny.py", b"import os\n"),
        ("native/kernel.so", b"\x7fELF"),
        ("pytorch_model.bin", b"\x80\x02}q\x00."),
        ("extras.pkl", b"anything"),
        ("cache", b"\x80\x04\x95"),
        ("model-00005-of-00006.safetensors", b"\x02\0\0\0\0\0\0\0{}"),
    ];
    for (name, bytes) in denied {
        copy(&kim, "hf-single/model", "here");
        let path = kim.lay(&format!("here/{name}"), bytes);
        for (how, exit) in [("deny", 1), ("warn", 0), ("allow", 0)] {
            let found = kim.json(&["verify", "here", "--extra", how]);
            assert_eq!(
                (&found["exit"], &found["by"]),
                (&exit.into(), &"bytes".into()),
                "{name} {how} {found}"
            );
            let expected = if how == "allow" { vec![] } else { vec![format!("extra-file {name}")] };
            assert_eq!(worse(&found), expected, "{how}");
        }
        assert_eq!(kim.run(&["verify", "here"]).code, 1, "denied without a flag: {name}");
        std::fs::remove_file(path).unwrap();
    }
    kim.lay("here/modeling_tiny.py", b"import os\n");
    kim.run(&["verify", "here"]).matches("verify/extra-code");
    std::fs::remove_file(kim.project.join("here/modeling_tiny.py")).unwrap();
    // What no loader of the model reads is worth a remark.
    for (name, bytes) in
        [("README.md", &b"# x"[..]), ("optimizer.pt", b"\x80\x02."), ("random_states_0.pkl", b"\x80\x02.")]
    {
        let path = kim.lay(&format!("here/{name}"), bytes);
        let found = kim.json(&["verify", "here"]);
        assert_eq!((&found["exit"], worse(&found)), (&0.into(), vec![format!("extra-file {name}")]));
        std::fs::remove_file(path).unwrap();
    }
    std::os::unix::fs::symlink("/etc/hostname", kim.project.join("here/tokenization.py")).unwrap();
    let found = kim.json(&["verify", "here"]);
    assert_eq!((&found["exit"], worse(&found)), (&1.into(), vec!["extra-file tokenization.py".to_owned()]));
}

#[test]
fn equal_tensors_do_not_excuse_code_that_comes_with_them() {
    let (_world, kim) = single();
    let verify = |flags: &[&str]| kim.json(&[&["verify", "new", "--by", "tensors"], flags].concat());
    copy(&kim, "hf-sharded/model", "new");
    kim.lay("new/modeling_tiny.py", b"import os\n");
    assert_eq!(
        (&verify(&[])["exit"], worse(&verify(&[]))),
        (&1.into(), vec!["extra-file modeling_tiny.py".to_owned()])
    );
    assert_eq!(verify(&["--extra", "warn"])["exit"], 0);
    std::fs::remove_file(kim.project.join("new/modeling_tiny.py")).unwrap();

    // A shard that the index does not name holds none of the tensors.
    kim.lay("new/model-00005-of-00006.safetensors", b"\x02\0\0\0\0\0\0\0{}");
    let found = verify(&[]);
    assert_eq!(
        (&found["exit"], worse(&found)),
        (&1.into(), vec!["extra-file model-00005-of-00006.safetensors".to_owned()])
    );
    std::fs::remove_file(kim.project.join("new/model-00005-of-00006.safetensors")).unwrap();

    kim.lay("new/tokenizer_config.json", b"{}");
    let found = verify(&[]);
    assert_eq!(
        (&found["exit"], worse(&found)),
        (&0.into(), vec!["other-files tokenizer_config.json".to_owned()])
    );
    kim.lay("new/config.json", br#"{"model_type": "llama", "auto_map": {"AutoModel": "x--y.Z"}}"#);
    for (how, exit, kind) in [("deny", 1, "other-code"), ("warn", 0, "other-code")] {
        let found = verify(&["--extra", how]);
        assert_eq!(found["exit"], exit, "{found}");
        assert!(worse(&found).contains(&format!("{kind} config.json")), "{found}");
    }
    assert_eq!(verify(&["--extra", "allow"])["exit"], 0);
    kim.run(&["verify", "new", "--by", "tensors"]).matches("verify/auto-map");
}

#[test]
fn a_report_is_written_whatever_the_answer_is() {
    let (_world, kim) = single();
    let reports = ["--report", "junit=ci/verify.xml", "--report", "md=verify.md"];
    let read = |name: &str| std::fs::read_to_string(kim.project.join(name)).unwrap();
    std::fs::create_dir(kim.project.join("ci")).unwrap();
    assert_eq!(kim.run(&[&["verify", "out"][..], &reports].concat()).code, 0);
    assert!(read("ci/verify.xml").contains("failures=\"0\" errors=\"0\""));
    assert!(read("verify.md").starts_with("**ok "));
    kim.lay("out/modeling.py", b"import os\n");
    let output = kim.run(&[&["verify", "out"][..], &reports].concat());
    assert_eq!(output.code, 1);
    let xml = read("ci/verify.xml");
    assert!(
        xml.contains("failures=\"1\"") && xml.contains("name=\"extra-file modeling.py\"><failure "),
        "{xml}"
    );
    assert!(read("verify.md").contains("| FAIL | extra-file | modeling.py |"));
    // Where there is no answer the last one must not stand.
    assert_eq!(kim.run(&[&["verify", "nowhere"][..], &reports].concat()).code, 3);
    assert!(read("ci/verify.xml").contains("tests=\"1\" failures=\"0\" errors=\"1\""));
    assert_eq!(kim.run(&["verify", "out", "--report", "sarif=x"]).code, 2);
    assert_eq!(kim.run(&["verify", "out", "--report", "md=verify.md/x"]).code, 6);
}
