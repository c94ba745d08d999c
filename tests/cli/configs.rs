//! Configs as tools write them: which freeze, which are refused, and what is said about how to go on.

use std::path::PathBuf;

use crate::support::{Person, World};

fn frozen(kim: &Person, config: &str) -> Vec<u8> {
    let run = kim.id(&["-q", "freeze", "-c", config, "--", "sh", "train.sh"]);
    let dir: PathBuf = kim.project.join(".ledger/runs").join(run.strip_prefix("run:").unwrap());
    std::fs::read(dir.join("frozen-config.json")).unwrap()
}

#[test]
fn equal_content_in_two_spellings_freezes_to_the_same_bytes() {
    let (_world, kim) = World::project();
    kim.copy("configs", "conf");
    for (one, other) in [
        ("conf/json/floats.json", "conf/json/floats-sorted.json"),
        ("conf/accelerate/default-as-json.yaml", "conf/accelerate/default_config.yaml"),
    ] {
        assert_eq!(frozen(&kim, one), frozen(&kim, other), "{one}");
    }
    let accelerate = String::from_utf8(frozen(&kim, "conf/accelerate/default_config.yaml")).unwrap();
    assert!(accelerate.contains(r#""distributed_type":"NO","downcast_bf16":false"#), "{accelerate}");
    let floats = String::from_utf8(frozen(&kim, "conf/json/floats.json")).unwrap();
    assert!(
        floats.contains(r#""negative_zero":-0.0"#) && floats.contains("18446744073709551617"),
        "{floats}"
    );
    let resolved = String::from_utf8(frozen(&kim, "conf/omegaconf/resolved.yaml")).unwrap();
    assert!(resolved.contains(r#""text":"1e-3""#) && resolved.contains(r#""version":"1.10""#), "{resolved}");
    for masked in ["to_dict.json", "to_sanitized_dict.json"] {
        let args = String::from_utf8(frozen(&kim, &format!("conf/training-args/{masked}"))).unwrap();
        assert!(args.contains(r#""hub_token":"<HUB_TOKEN>""#), "{masked}: a mask is no secret");
    }
}

#[test]
fn what_cannot_be_frozen_is_refused_with_the_way_on() {
    let (_world, kim) = World::project();
    kim.copy("configs", "conf");
    let job = "conf/hydra/outputs/2026-11-30/18-35-44";
    for (config, name) in [
        (job, "configs/hydra-job"),
        ("conf/hydra/conf/config.yaml", "configs/hydra-primary"),
        ("conf/hydra/multirun/2026-11-30/18-35-45", "configs/hydra-multirun"),
        ("conf/omegaconf/unresolved.yaml", "configs/omegaconf"),
        ("conf/json/non-finite.json", "configs/non-finite"),
        ("conf/json/duplicate-keys.json", "configs/duplicate-keys"),
        ("conf/toml/run.toml", "configs/toml"),
    ] {
        let output = kim.run(&["-q", "freeze", "-c", config, "--", "sh", "train.sh"]);
        assert_eq!(output.code, 2, "{config}: {output:?}");
        output.matches(name);
    }
    assert_eq!(kim.json(&["head"])["size"], 1, "nothing was written");
    let direct =
        kim.run(&["-q", "freeze", "-c", &format!("{job}/.hydra/config.yaml"), "--", "sh", "train.sh"]);
    direct.matches("configs/hydra-job");
}

#[test]
fn a_job_of_hydra_s_freezes_once_its_values_are_final() {
    let (_world, kim) = World::project();
    kim.copy("configs", "conf");
    let job = "conf/hydra/outputs/2026-11-30/18-35-44";
    let output = kim.run(&[
        "freeze",
        "-c",
        job,
        "--set",
        "data=data",
        "--set",
        "run_name=h16-lr0.05-s17",
        "--name",
        "job",
        "--",
        "sh",
    ]);
    assert_eq!(output.code, 0, "{output:?}");
    let all = crate::support::filtered(&kim.ok(&["show", "job", "--raw"]), &kim.home);
    assert!(!all.contains("/data/project"), "nothing of Hydra's own settings is taken: {all}");
    let primary = kim.run(&[
        "freeze",
        "--dry-run",
        "-c",
        "conf/hydra/conf/config.yaml",
        "--set",
        "data=data",
        "--set",
        "run_name=x",
        "--",
        "sh",
    ]);
    assert!(primary.stderr.contains("has a list of defaults"), "{primary:?}");
}

#[test]
fn dates_and_numbers_of_toml_keep_their_meaning() {
    let (_world, kim) = World::project();
    let path = kim.copy("configs/toml/run.toml", "run.toml");
    let text = std::fs::read_to_string(&path).unwrap().replace("clip = inf\n", "");
    std::fs::write(&path, text).unwrap();
    let frozen = String::from_utf8(frozen(&kim, "run.toml")).unwrap();
    for part in [
        r#""weight_decay":-0.0"#,
        r#""steps":1000"#,
        r#""mask":255"#,
        r#""day":"2026-11-30""#,
        r#""started":"2026-11-30T18:00:00Z""#,
    ] {
        assert!(frozen.contains(part), "{part}: {frozen}");
    }
}

#[test]
fn a_config_that_is_a_link_is_frozen_as_its_content() {
    let (_world, kim) = World::project();
    kim.lay("conf/v1.yaml", b"lr: 0.1\n");
    kim.lay("conf/v2.yaml", b"lr: 0.2\n");
    let link = kim.project.join("conf/current.yaml");
    std::os::unix::fs::symlink("v1.yaml", &link).unwrap();
    kim.ok(&["-q", "freeze", "-c", "conf/current.yaml", "--name", "base", "--", "sh", "train.sh"]);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("v2.yaml", &link).unwrap();
    let frozen = kim.json(&["show", "base"])["record"]["config"].as_str().unwrap().to_owned();
    let frozen = kim.json(&["show", &frozen])["record"]["frozen"].as_str().unwrap().to_owned();
    assert_eq!(kim.ok(&["cat", &frozen]), r#"{"lr":0.1}"#, "what was frozen does not follow the link");
    let start = kim.run(&["start", "base"]);
    start.fails(4, "frozen-drift");
    assert!(start.stderr.contains("lr") && start.stderr.contains("0.1 -> 0.2"), "{start:?}");
}
