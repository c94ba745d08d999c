//! Verifying a recorded project: what holds, and each way in which it may not, by finding and exit code.
#![expect(clippy::disallowed_methods, reason = "tests lay files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails the test")]

mod recorded;

use std::fs;
use std::path::PathBuf;

use ledger::ledger::StagedClaim;
use ledger::lineage;
use ledger::model::{About, Fixed, Kind, Revocation, Target, TypedId};
use ledger::store;
use ledger::verify::{Extra, Finding, Report, Request, Severity, Subject, Trusted, identify, verify};
use recorded::Project;

fn request(project: &Project, subject: Subject) -> Request {
    let id = project.open().id();
    let trust = vec![Trusted { id, name: None, min_head: None }];
    Request { trust, ..Request::new(subject) }
}

fn at(project: &Project, rel: &str) -> Request {
    request(project, Subject::Path(project.path(rel)))
}

fn run(project: &Project, request: &Request) -> Report {
    verify(&project.open(), request, &|_| {}).unwrap()
}

/// Checks the exit code, and that exactly these findings are worse than a remark.
fn expect(report: &Report, exit: u8, worse: &[&str]) {
    let bad: Vec<&Finding> = report.findings.iter().filter(|f| f.severity > Severity::Skip).collect();
    let slugs: Vec<&str> = bad.iter().map(|finding| finding.slug).collect();
    assert_eq!(slugs, worse, "{:#?}", report.findings);
    assert_eq!(report.answer().exit(), exit, "{:#?}", report.findings);
}

fn slugs(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.slug).collect()
}

fn find<'r>(report: &'r Report, slug: &str) -> &'r Finding {
    report.findings.iter().find(|finding| finding.slug == slug).unwrap_or_else(|| panic!("{report:#?}"))
}

fn object_path(project: &Project, id: TypedId) -> PathBuf {
    project.path(".ledger").join(store::place(id.id))
}

fn replace(path: &PathBuf, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_recorded_checkpoint_verifies_down_to_its_inputs() {
    let project = Project::new();
    let report = run(&project, &at(&project, "out/step-300"));
    expect(&report, 0, &[]);
    assert_eq!(report.subject, Some(project.checkpoints[1]));
    assert_eq!(report.run, Some(project.plan));
    assert_eq!(report.place.as_deref(), Some("out/step-300"));
    let told = slugs(&report);
    for slug in ["bytes", "checkpoint", "start", "plan", "end", "config", "environment", "dataset", "head"] {
        assert!(told.contains(&slug), "{slug} is not told: {told:?}");
    }
    let none: Vec<&str> =
        report.findings.iter().filter(|f| f.slug == "none").map(|f| f.message.as_str()).collect();
    assert_eq!(none, ["code: none (not a repository)", "base: none (none given)"]);
    assert!(find(&report, "head").message.starts_with("known up to statement 5,"));
    // What was not asked for is said to be unchecked.
    assert_eq!(find(&report, "data").severity, Severity::Skip);
    assert!(!told.contains(&"repo"), "there is no commit to look for");

    let whole = Request { full: true, ..at(&project, "out/step-300") };
    expect(&run(&project, &whole), 0, &[]);
    let by_id = request(&project, Subject::Id(project.checkpoints[1]));
    let report = run(&project, &by_id);
    expect(&report, 0, &[]);
    assert_eq!(find(&report, "bytes").severity, Severity::Skip);
}

#[test]
fn a_moved_copy_is_found_by_its_bytes() {
    let project = Project::new();
    fs::rename(project.path("out/step-300"), project.path("elsewhere")).unwrap();
    let report = run(&project, &at(&project, "elsewhere"));
    expect(&report, 0, &[]);
    assert_eq!(report.subject, Some(project.checkpoints[1]));
}

#[test]
fn a_flipped_byte_is_named_with_its_file_and_both_digests() {
    let project = Project::new();
    let path = project.path("out/step-300/model.safetensors");
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    fs::write(&path, &bad).unwrap();
    let report = run(&project, &at(&project, "out/step-300"));
    expect(&report, 1, &["wrong-bytes"]);
    assert_eq!(report.subject, Some(project.checkpoints[1]), "by its path");
    let wrong = find(&report, "wrong-bytes");
    assert_eq!(wrong.at.as_deref(), Some("model.safetensors"));
    for bytes in [&good, &bad] {
        assert!(wrong.message.contains(&ledger::id::object_id(bytes).to_hex()[..12]), "{}", wrong.message);
    }
    // The chain of the record that is meant is still told.
    assert!(slugs(&report).contains(&"plan"));

    // Elsewhere it is the record that shares most files, and both records share the config.
    fs::rename(project.path("out/step-300"), project.path("elsewhere")).unwrap();
    expect(&run(&project, &at(&project, "elsewhere")), 1, &["wrong-bytes"]);
    let by_tensors = Request { by_tensors: true, ..at(&project, "elsewhere") };
    let report = run(&project, &by_tensors);
    expect(&report, 1, &["wrong-bytes", "tensors"]);
    assert_eq!(find(&report, "tensors").message, "0 of 1 tensors as recorded; `w` changed");
}

#[test]
fn equal_tensors_count_where_they_are_asked_for() {
    let project = Project::new();
    // The same tensor behind another header.
    let header = br#"{"__metadata__":{"by":"kim"},"w":{"dtype":"U8","shape":[64],"data_offsets":[0,64]}}"#;
    let saved = [&(header.len() as u64).to_le_bytes()[..], header, &[3; 64]].concat();
    project.lay("out/step-300/model.safetensors", &saved);
    expect(&run(&project, &at(&project, "out/step-300")), 1, &["wrong-bytes"]);
    let by_tensors = Request { by_tensors: true, ..at(&project, "out/step-300") };
    let report = run(&project, &by_tensors);
    expect(&report, 0, &[]);
    let text = "1 of 1 tensors as recorded, 1 file otherwise: `model.safetensors`";
    assert_eq!(find(&report, "tensors").message, text);
}

#[test]
fn a_missing_and_an_additional_file_are_named() {
    let project = Project::new();
    fs::remove_file(project.path("out/step-300/config.json")).unwrap();
    let report = run(&project, &at(&project, "out/step-300"));
    expect(&report, 1, &["wrong-bytes"]);
    assert!(find(&report, "wrong-bytes").message.ends_with("found nothing"));

    let project = Project::new();
    project.lay("out/step-300/modeling.py", b"import os\n");
    project.lay("out/step-300/README.md", b"hello\n");
    let report = run(&project, &at(&project, "out/step-300"));
    expect(&report, 1, &["extra-file", "extra-file"]);
    let by_file = |name: &str| {
        report.findings.iter().find(|finding| finding.at.as_deref() == Some(name)).unwrap().severity
    };
    assert_eq!(by_file("modeling.py"), Severity::Fail);
    assert_eq!(by_file("README.md"), Severity::Warn, "no loader reads it");
    for (extra, worse) in [(Extra::Warn, &["extra-file", "extra-file"][..]), (Extra::Allow, &[])] {
        let request = Request { extra, ..at(&project, "out/step-300") };
        expect(&run(&project, &request), 0, worse);
    }
}

#[test]
fn files_beside_the_weights_do_not_change_the_answer() {
    let project = Project::new();
    fs::remove_file(project.path("out/step-300/optimizer.pt")).unwrap();
    let report = run(&project, &at(&project, "out/step-300"));
    expect(&report, 0, &["other-files"]);
    assert_eq!(report.subject, Some(project.checkpoints[1]));
    let text = &find(&report, "other-files").message;
    assert_eq!(text, "weights as recorded; 1 other file changed or gone: `optimizer.pt`");
}

#[test]
fn another_checkpoint_is_not_the_one_that_is_meant() {
    let project = Project::new();
    let request = Request { is: Some(project.checkpoints[0]), ..at(&project, "out/step-300") };
    let report = run(&project, &request);
    expect(&report, 1, &["not-that-one", "wrong-bytes"]);
    assert_eq!(find(&report, "not-that-one").subject, Some(project.checkpoints[1]));
    assert!(find(&report, "not-that-one").message.contains("out/step-300"));
    let request = Request { is: Some(project.checkpoints[1]), ..at(&project, "out/step-300") };
    expect(&run(&project, &request), 0, &[]);
}

#[test]
fn what_shares_nothing_is_not_recorded() {
    let project = Project::new();
    project.lay("unknown/model.safetensors", b"\x02\0\0\0\0\0\0\0{}");
    let report = run(&project, &at(&project, "unknown"));
    assert_eq!(report.subject, None);
    assert_eq!(report.answer().exit(), 3);
    assert_eq!(find(&report, "not-recorded").severity, Severity::Unknown);
    assert!(!slugs(&report).contains(&"wrong-bytes"));
}

#[test]
fn a_missing_object_cannot_be_decided_and_a_wrong_one_is_damage() {
    for (delete, exit, slug) in [(true, 3, "not-available"), (false, 5, "damaged")] {
        let project = Project::new();
        let path = object_path(&project, project.config);
        if delete {
            fs::remove_file(&path).unwrap();
        } else {
            let mut bytes = fs::read(&path).unwrap();
            bytes[3] ^= 1;
            replace(&path, &bytes);
        }
        let report = run(&project, &at(&project, "out/step-300"));
        expect(&report, exit, &[slug]);
        assert_eq!(find(&report, slug).subject, Some(project.config));
        assert!(slugs(&report).contains(&"dataset"), "the other inputs are still told");
    }
}

#[test]
fn a_revoked_input_makes_the_answer_no_from_there_on() {
    let file = ledger::id::object_id(b"1,2\n");
    for inside in [false, true] {
        let project = Project::new();
        let target = if inside { TypedId::new(Kind::Blob, file) } else { project.data };
        let id = target.id;
        project.commit(|tx| {
            let texts = [("reason".to_owned(), "licence withdrawn".to_owned())].into();
            let about = tx.put(&About { texts }).unwrap().id;
            let record = Revocation { nonce: Fixed([9; 16]), target: Target::Object(target), since: None };
            let encoded = tx.put(&record).unwrap();
            tx.claim(StagedClaim::new(&record, &encoded).beside("about", about));
        });
        let report = run(&project, &at(&project, "out/step-300"));
        expect(&report, 1, &["revoked"]);
        let revoked = find(&report, "revoked");
        assert_eq!(revoked.subject.unwrap().id, id);
        assert!(revoked.message.ends_with("in statement 6: licence withdrawn"), "{}", revoked.message);
        let before = Request { as_of: Some(6), ..at(&project, "out/step-300") };
        expect(&run(&project, &before), 0, &[]);
    }
}

#[test]
fn what_a_revoked_key_signed_since_then_is_not_relied_on() {
    let project = Project::new();
    let key = project.open().state().keys()[0].id;
    project.commit(|tx| {
        let record = Revocation { nonce: Fixed([9; 16]), target: Target::Key(key), since: Some(4) };
        let encoded = tx.put(&record).unwrap();
        tx.claim(StagedClaim::new(&record, &encoded));
    });
    // Statement 4 is the later checkpoint, statement 5 ends the attempt of both.
    let report = run(&project, &at(&project, "out/step-300"));
    expect(&report, 1, &["compromised"]);
    let message = &find(&report, "compromised").message;
    assert!(message.starts_with("statements 4, 5 were signed by kim"), "{report:#?}");
    assert!(message.contains("compromised since statement 4"), "{report:#?}");
    let before = report.findings.iter().filter(|finding| finding.slug == "compromised").nth(1).unwrap();
    assert_eq!(before.severity, Severity::Ok, "what stands before the mark is told and harms nothing");
    let early = Request { as_of: Some(5), ..at(&project, "out/step-200") };
    expect(&run(&project, &early), 0, &["run-status"]);
}

#[test]
fn a_folded_state_is_not_believed_about_the_statements_that_an_answer_rests_on() {
    let project = Project::new();
    let ledger = project.open();
    let state = ledger.state().to_file().unwrap();
    project.lay(&format!("home/cache/{}/state", ledger.id()), &state);
    let bundle = project.path(".ledger/log/tile/entries/000.p/6");
    let mut bytes = fs::read(&bundle).unwrap();
    let statement = ledger.log().statement(6, 4).unwrap();
    let place = bytes.windows(statement.len()).position(|found| found == statement).unwrap();
    // The last byte of a statement belongs to its signature.
    bytes[place + statement.len() - 1] ^= 1;
    replace(&bundle, &bytes);
    let report = run(&project, &at(&project, "out/step-300"));
    assert_eq!(report.answer().exit(), 5, "{report:#?}");
    assert_eq!(find(&report, "log").at.as_deref(), Some("statement 4"));
    expect(&run(&project, &at(&project, "out/step-200")), 0, &[]);
    let whole = Request { full: true, ..at(&project, "out/step-200") };
    assert_eq!(run(&project, &whole).answer().exit(), 5, "somewhere in the log");
}

#[test]
fn a_ledger_that_nobody_trusts_only_agrees_with_itself() {
    let project = Project::new();
    let request = Request { trust: Vec::new(), ..at(&project, "out/step-300") };
    let report = run(&project, &request);
    expect(&report, 3, &["signer-not-trusted"]);
    assert!(find(&report, "bytes").severity == Severity::Ok, "the rest is still told");
    let id = project.open().id();
    let ahead = vec![Trusted { id, name: None, min_head: Some(7) }];
    expect(&run(&project, &Request { trust: ahead, ..at(&project, "out/step-300") }), 3, &["behind"]);
    let early = Request { as_of: Some(3), ..at(&project, "out/step-300") };
    assert_eq!(run(&project, &early).answer().exit(), 3, "not recorded yet");
}

#[test]
fn data_is_read_again_where_that_is_asked_for() {
    let project = Project::new();
    let request = Request { data: true, ..at(&project, "out/step-300") };
    // This plan says nowhere where its data lay.
    expect(&run(&project, &request), 3, &["not-available"]);
    let data = at(&project, "data/train");
    let report = run(&project, &data);
    expect(&report, 0, &[]);
    assert_eq!(report.subject, Some(project.data));
    project.lay("data/train/c.csv", b"5,6\n");
    let meant = Request { is: Some(project.data), ..data };
    expect(&run(&project, &meant), 1, &["extra-file"]);
}

#[test]
fn lineage_leads_from_weights_to_inputs_and_back() {
    let project = Project::new();
    let ledger = project.open();
    let up = lineage::ancestors(&ledger, project.checkpoints[1]).unwrap();
    let told: Vec<(usize, &str)> = up.walk().iter().map(|step| (step.depth, step.role)).collect();
    let expected = [
        (0, ""),
        (1, "start"),
        (2, "plan"),
        (3, "config"),
        (3, "environment"),
        (3, "data train"),
        (2, "end"),
    ];
    assert_eq!(told, expected);
    assert_eq!(up.nodes[&project.plan].none["code"], "not a repository");
    assert_eq!(up.nodes[&project.checkpoints[1]].label, "out/step-300, step 300");
    assert!(up.nodes.values().all(|node| node.is_available));

    let down = lineage::descendants(&ledger, project.data).unwrap();
    for id in project.checkpoints.iter().chain([&project.plan]) {
        assert!(down.nodes.contains_key(id));
    }
    assert!(!down.nodes.contains_key(&project.config), "the config does not depend on the data");
    let siblings = lineage::descendants(&ledger, project.checkpoints[0]).unwrap();
    assert_eq!(siblings.nodes.len(), 1, "nothing came from it");

    let found = identify(&ledger, &project.path("out/step-200"), &|_| {}).unwrap();
    assert_eq!(found[0], project.checkpoints[0]);
}
