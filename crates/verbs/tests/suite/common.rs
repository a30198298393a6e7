//! A session in a state directory of its own, with a journal that the test writes.

use berth_api::AccessScope;
use berth_core::{
    Actor, ClockReading, Command, Epoch, Event, ProcessRef, RunBoundary, SafeName, SendMode, SessionId,
    SessionSpec, TurnPrompt,
};
use berth_keeper::journaled_session::{JournaledSession, SessionInput};
use berth_store::{SessionFiles, StateDir};
use berth_test_dir::TestDir;
use berth_verbs::VerbContext;

pub(crate) struct KeeperlessSession {
    pub(crate) root: TestDir,
    pub(crate) home: StateDir,
    pub(crate) id: SessionId,
}

impl KeeperlessSession {
    /// Creates a session, and lets `write` add to its journal and its other files.
    pub(crate) fn new(
        driver: &str,
        name: &str,
        write: impl FnOnce(&SessionFiles, &mut JournaledSession),
    ) -> Self {
        let root = TestDir::new();
        let home = StateDir::open(root.to_path_buf()).expect("a state directory");
        let id = SessionId::parse("0123456789ab").expect("an id");
        let files = home.session(&id);
        files.make().expect("a directory");
        let lease = files.claim().expect("a lease").expect("free");
        let mut owner = JournaledSession::create(&lease).expect("a journal");
        let spec = SessionSpec { driver: driver.to_owned(), ..SessionSpec::default() };
        let name = Some(SafeName::parse(name).expect("a name"));
        let create = SessionInput::Command(Command::Create { spec, name });
        owner.take(vec![create], ClockReading::default()).expect("room");
        write(&files, &mut owner);
        owner.close().expect("room");
        Self { root, home, id }
    }

    pub(crate) fn files(&self) -> SessionFiles {
        self.home.session(&self.id)
    }

    pub(crate) fn ctx(&self) -> VerbContext {
        VerbContext {
            home: self.home.clone(),
            place: "a test".to_owned(),
            size: None,
            parent: None,
            also: vec![],
            unseen: None,
            scope: AccessScope::Admin,
        }
    }
}

pub(crate) fn prompt(text: String, key: Option<String>, manner: SendMode) -> TurnPrompt {
    TurnPrompt { by: Actor::default(), text, key, start_by: None, manner, retry: None }
}

pub(crate) fn run_starting(epoch: u64, output_from: u64) -> Event {
    Event::RunStarting {
        epoch: Epoch(epoch),
        keeper: ProcessRef::default(),
        output_from,
        boundary: RunBoundary::default(),
    }
}
