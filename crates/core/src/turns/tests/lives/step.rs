//! What can happen in a life, and how often it does.

use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use crate::turns::{Final, Manner, OnFailed, OnUnknown};
use crate::{Policy, Term};

/// What can happen to a session that takes turns.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Send {
        text: u8,
        key: Option<u8>,
        manner: Manner,
        within_ms: Option<u64>,
    },
    /// So many at once: a queue that is full is worth nothing untested.
    Flood(u8),
    /// So many are sent, given and done, one after the other, if the agent takes them: more than are kept in memory.
    Busy(u8),
    /// The keeper does what is owed: gives the turn that is due.
    Deliver,
    /// A keeper gone mad gives a turn of its own choice.
    DeliverAny(u64),
    Withdraw(u64),
    Cancel(u64),
    Move(u64, u64),
    Pause,
    GoOn,
    Answer(Option<u8>, bool),
    Stop(u64),
    /// Somebody begins the next run.
    Start,
    /// The keeper does what is owed: begins the next run, if it is.
    NextRun,
    Spawned,
    SpawnFailed,
    Ready(bool),
    Began(u64),
    Over(u64, Final),
    Asks(u8),
    Unasked(u8),
    Foreign,
    Broken,
    Exited,
    Empty,
    /// One of the earlier reports comes again.
    Again(u8),
    KeeperDies,
    Reboot,
    Archive,
    Restore,
    /// Somebody wants other times: to be released, and to live.
    Policy(Term, Term),
    Pass(u64),
    /// Time passes exactly until something is due.
    PassUntilDue,
}

fn fate() -> impl Strategy<Value = Final> {
    prop_oneof![
        4 => Just(Final::Done),
        2 => Just(Final::Failed),
        1 => Just(Final::Cancelled),
        1 => Just(Final::Interrupted),
        1 => Just(Final::Unknown),
    ]
}

fn manner() -> impl Strategy<Value = Manner> {
    prop_oneof![4 => Just(Manner::Queue), 1 => Just(Manner::Steer), 1 => Just(Manner::Interrupt)]
}

fn term(most_ms: u64) -> impl Strategy<Value = Term> {
    prop_oneof![Just(Term::Same), Just(Term::Never), (0..most_ms).prop_map(Term::After)]
}

/// Steps that are worth repeating, in a life that gets somewhere.
pub(super) fn step() -> impl Strategy<Value = Step> {
    let turn = || 0..12_u64;
    let send = (0..3_u8, option::weighted(0.3, 0..3_u8), manner(), option::weighted(0.2, 0..3000_u64))
        .prop_map(|(text, key, manner, within_ms)| Step::Send { text, key, manner, within_ms });
    let asked = (option::of(0..3_u8), any::<bool>()).prop_map(|(which, allow)| Step::Answer(which, allow));
    let commands = prop_oneof![
        12 => send,
        1 => (60..130_u8).prop_map(Step::Flood),
        2 => (1..9_u8).prop_map(Step::Busy),
        12 => Just(Step::Deliver),
        1 => turn().prop_map(Step::DeliverAny),
        1 => turn().prop_map(Step::Withdraw),
        4 => turn().prop_map(Step::Cancel),
        3 => (turn(), 0..5_u64).prop_map(|(turn, to)| Step::Move(turn, to)),
        1 => Just(Step::Pause),
        3 => Just(Step::GoOn),
        2 => asked,
        1 => (0..3000_u64).prop_map(Step::Stop),
        5 => Just(Step::Start),
        5 => Just(Step::NextRun),
        1 => Just(Step::Archive),
        2 => Just(Step::Restore),
        1 => (term(9000), term(40_000)).prop_map(|(idle, ttl)| Step::Policy(idle, ttl)),
    ];
    let reports = prop_oneof![
        6 => Just(Step::Spawned),
        1 => Just(Step::SpawnFailed),
        8 => any::<bool>().prop_map(Step::Ready),
        3 => turn().prop_map(Step::Began),
        8 => (turn(), fate()).prop_map(|(turn, fate)| Step::Over(turn, fate)),
        2 => (0..3_u8).prop_map(Step::Asks),
        1 => (0..3_u8).prop_map(Step::Unasked),
        1 => Just(Step::Foreign),
        1 => Just(Step::Broken),
        2 => Just(Step::Exited),
        4 => Just(Step::Empty),
        4 => any::<u8>().prop_map(Step::Again),
        1 => Just(Step::KeeperDies),
        1 => Just(Step::Reboot),
        4 => (0..8000_u64).prop_map(Step::Pass),
        3 => Just(Step::PassUntilDue),
    ];
    prop_oneof![commands, reports]
}

pub(super) fn policy() -> impl Strategy<Value = Policy> {
    let unknown = prop_oneof![Just(OnUnknown::Hold), Just(OnUnknown::Continue)];
    let (idle_ms, ttl_ms) = (option::of(0..9000_u64), option::weighted(0.2, 0..40_000_u64));
    let failed = prop_oneof![Just(OnFailed::Hold), Just(OnFailed::Continue), Just(OnFailed::Retry)];
    (idle_ms, ttl_ms, unknown, failed).prop_map(|(idle_ms, ttl_ms, on_unknown, on_failed)| Policy {
        idle_ms,
        ttl_ms,
        archive_after_ms: None,
        on_unknown,
        on_failed,
        ..Policy::default()
    })
}
