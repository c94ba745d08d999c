//! A small project with everything recorded: data, a run with config and environment, two checkpoints, an end.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ledger::capture::walk::{self, Options};
use ledger::capture::weights;
use ledger::durable::{Disk, RealDisk};
use ledger::id::Digests;
use ledger::ledger::{Founder, Home, Ledger, Outcome, Signer, StagedClaim, Transaction, init};
use ledger::log::key::SigningKey;
use ledger::model::{
    Checkpoint, Config, Dataset, End, Environment, Fixed, Interpreter, Kind, Name, Plan, Start, TypedId,
};

pub(crate) struct Project {
    dir: tempfile::TempDir,
    author: SigningKey,
    log: SigningKey,
    pub(crate) data: TypedId,
    pub(crate) config: TypedId,
    pub(crate) plan: TypedId,
    /// Checkpoints in `out/step-200` and `out/step-300`.
    pub(crate) checkpoints: Vec<TypedId>,
}

/// A safetensors file of one tensor.
fn safetensors(fill: u8) -> Vec<u8> {
    let header = br#"{"w":{"dtype":"U8","shape":[64],"data_offsets":[0,64]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header, &[fill; 64]].concat()
}

impl Project {
    /// Makes six statements: genesis, data, plan with start, two checkpoints, end.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (author, log) = (SigningKey::from_seed(&[1; 32]), SigningKey::from_seed(&[2; 32]));
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let founder = Founder {
            name: "kim",
            author: &author,
            log: &log,
            recovery: None,
            time: 1_764_500_000,
            nonce: [1; 16],
            instance: [2; 16],
            shared: false,
        };
        init(&disk, dir.path(), &founder).unwrap();
        let none = TypedId::new(Kind::Blob, ledger::id::object_id(b""));
        let mut project =
            Self { dir, author, log, data: none, config: none, plan: none, checkpoints: Vec::new() };
        project.lay("data/train/a.csv", b"1,2\n");
        project.lay("data/train/b.csv", b"3,4\n");
        project.data = project.record_data();
        let start = project.record_run();
        for (step, fill) in [(200, 2), (300, 3)] {
            let out = format!("out/step-{step}");
            project.lay(&format!("{out}/model.safetensors"), &safetensors(fill));
            project.lay(&format!("{out}/config.json"), b"{\"hidden\":4}");
            project.lay(&format!("{out}/optimizer.pt"), &[fill; 16]);
            let id = project.record_checkpoint(&out, start);
            project.checkpoints.push(id);
        }
        project.commit(|tx| {
            let end =
                End { nonce: Fixed([4; 16]), start, status: "completed".into(), code: Some(0), signal: None };
            let encoded = tx.put(&end).unwrap();
            tx.claim(StagedClaim::new(&end, &encoded));
        });
        project
    }

    pub(crate) fn path(&self, rel: &str) -> PathBuf {
        self.dir.path().join(rel)
    }

    pub(crate) fn lay(&self, rel: &str, bytes: &[u8]) {
        let path = self.path(rel);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if path.exists() {
            fs::remove_file(&path).unwrap();
        }
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn open(&self) -> Ledger {
        let home = Home::new(Some(self.path("home/state")), Some(self.path("home/cache")));
        Ledger::open(&self.path(".ledger"), home).unwrap()
    }

    /// Makes one statement.
    pub(crate) fn commit(&self, stage: impl FnOnce(&mut Transaction<'_>)) {
        let mut ledger = self.open();
        let mut tx = ledger.transaction();
        stage(&mut tx);
        let signer = Signer {
            author: &self.author,
            log: Some(&self.log),
            time: 1_764_500_100,
            wait: Duration::from_secs(5),
            user: rustix::process::getuid().as_raw(),
        };
        let outcome = tx.commit(&signer).unwrap();
        assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
    }

    fn record_data(&self) -> TypedId {
        let tree = walk::observe(&self.path("data/train"), &Options::new(Digests::All), &|_| {}).unwrap();
        let record = Dataset { root: TypedId::new(Kind::Tree, tree.id) };
        let id = ledger::model::encode(&record).unwrap().id;
        self.commit(|tx| {
            tx.put_objects(tree.nodes.into_iter().map(|(_, bytes)| bytes));
            let encoded = tx.put(&record).unwrap();
            tx.claim(StagedClaim::new(&record, &encoded).named(Name::parse("train")));
        });
        id
    }

    fn record_run(&mut self) -> TypedId {
        let mut made = None;
        let data = self.data;
        self.commit(|tx| {
            let frozen = tx.put_blob(b"{\"lr\":0.1}".to_vec());
            let source = tx.put_blob(b"lr: 0.1\n".to_vec());
            let config = tx.put(&Config { frozen, sources: vec![source] }).unwrap().id;
            let interpreter = Some(Interpreter { name: "CPython".into(), version: "3.11.7".into() });
            let environment = Environment {
                interpreter,
                os: "linux".into(),
                arch: "x86_64".into(),
                ..Environment::default()
            };
            let plan = Plan {
                nonce: Some(Fixed([3; 16])),
                name: None,
                config: Some(config),
                code: None,
                environment: Some(tx.put(&environment).unwrap().id),
                data: vec![("train".into(), data)],
                base: vec![],
                contracts: vec![],
                policies: vec![],
                spec: None,
                none: [("code", "not a repository"), ("base", "none given")]
                    .map(|(word, why)| (word.to_owned(), why.to_owned()))
                    .into(),
                argv: vec!["python".into(), "train.py".into()],
                seed: Some(7),
                study: None,
                arm: None,
            };
            let manifest = tx.put_blob(b"{}".to_vec());
            let encoded = tx.put(&plan).unwrap();
            tx.claim(StagedClaim::new(&plan, &encoded).beside("manifest", manifest));
            let start = Start {
                nonce: Fixed([5; 16]),
                plan: encoded.id,
                environment: None,
                lost: vec![],
                check: "frozen".into(),
            };
            let started = tx.put(&start).unwrap();
            tx.claim(StagedClaim::new(&start, &started));
            made = Some((config, encoded.id, started.id));
        });
        let (config, plan, start) = made.unwrap();
        self.config = config;
        self.plan = plan;
        start
    }

    fn record_checkpoint(&self, rel: &str, start: TypedId) -> TypedId {
        let path = self.path(rel);
        let tree = walk::observe(&path, &Options::new(Digests::All), &|_| {}).unwrap();
        let seen = weights::observe(&tree, &path).unwrap();
        assert!(seen.incomplete().next().is_none());
        let subset = tree.subset(&seen.weights).unwrap();
        let tensors = seen.tensors.unwrap();
        let (sums, sum_objects) = tree.sums.unwrap();
        let record = Checkpoint {
            start: Some(start),
            tensors: Some(TypedId::new(Kind::Tensors, tensors.id)),
            step: seen.step,
            path: Some(rel.into()),
            ..Checkpoint::bare(
                TypedId::new(Kind::Tree, tree.id),
                TypedId::new(Kind::Tree, subset.id),
                seen.format,
            )
        };
        let id = ledger::model::encode(&record).unwrap().id;
        self.commit(|tx| {
            let objects = tree.nodes.into_iter().chain(subset.nodes).chain(sum_objects);
            tx.put_objects(objects.map(|(_, bytes)| bytes));
            tx.put_objects([tensors.bytes]);
            let encoded = tx.put(&record).unwrap();
            tx.claim(StagedClaim::new(&record, &encoded).beside("sums", TypedId::new(Kind::Sums, sums)));
        });
        id
    }
}
