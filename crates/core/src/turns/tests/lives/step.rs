//! Steps of a life, and their frequency.

use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use crate::turns::{FinalState, OnFailed, OnUnknown, SendMode};
use crate::{SessionPolicy, TimeoutChange};

/// A step in the life of a session that takes turns.
#[derive(Clone, Debug)]
pub(super) enum TurnsScenarioStep {
    Send {
        text: u8,
        key: Option<u8>,
        manner: SendMode,
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
    /// A client begins the next run.
    Start,
    /// The keeper does what is owed: begins the next run, if it is.
    NextRun,
    Spawned,
    SpawnFailed,
    Ready(bool),
    Began(u64),
    Over(u64, FinalState),
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
    /// A client changes two limits: the idle time and the time to live.
    Policy(TimeoutChange, TimeoutChange),
    Pass(u64),
    /// Time passes exactly until something is due.
    PassUntilDue,
}

fn fate() -> impl Strategy<Value = FinalState> {
    prop_oneof![
        4 => Just(FinalState::Done),
        2 => Just(FinalState::Failed),
        1 => Just(FinalState::Cancelled),
        1 => Just(FinalState::Interrupted),
        1 => Just(FinalState::Unknown),
    ]
}

fn manner() -> impl Strategy<Value = SendMode> {
    prop_oneof![4 => Just(SendMode::Queue), 1 => Just(SendMode::Steer), 1 => Just(SendMode::Interrupt)]
}

fn term(most_ms: u64) -> impl Strategy<Value = TimeoutChange> {
    prop_oneof![
        Just(TimeoutChange::Same),
        Just(TimeoutChange::Never),
        (0..most_ms).prop_map(TimeoutChange::After)
    ]
}

/// Steps that are worth repeating, in a life that gets somewhere.
pub(super) fn step() -> impl Strategy<Value = TurnsScenarioStep> {
    let turn = || 0..12_u64;
    let send = (0..3_u8, option::weighted(0.3, 0..3_u8), manner(), option::weighted(0.2, 0..3000_u64))
        .prop_map(|(text, key, manner, within_ms)| TurnsScenarioStep::Send { text, key, manner, within_ms });
    let asked = (option::of(0..3_u8), any::<bool>())
        .prop_map(|(which, allow)| TurnsScenarioStep::Answer(which, allow));
    let commands = prop_oneof![
        12 => send,
        1 => (60..130_u8).prop_map(TurnsScenarioStep::Flood),
        2 => (1..9_u8).prop_map(TurnsScenarioStep::Busy),
        12 => Just(TurnsScenarioStep::Deliver),
        1 => turn().prop_map(TurnsScenarioStep::DeliverAny),
        1 => turn().prop_map(TurnsScenarioStep::Withdraw),
        4 => turn().prop_map(TurnsScenarioStep::Cancel),
        3 => (turn(), 0..5_u64).prop_map(|(turn, to)| TurnsScenarioStep::Move(turn, to)),
        1 => Just(TurnsScenarioStep::Pause),
        3 => Just(TurnsScenarioStep::GoOn),
        2 => asked,
        1 => (0..3000_u64).prop_map(TurnsScenarioStep::Stop),
        5 => Just(TurnsScenarioStep::Start),
        5 => Just(TurnsScenarioStep::NextRun),
        1 => Just(TurnsScenarioStep::Archive),
        2 => Just(TurnsScenarioStep::Restore),
        1 => (term(9000), term(40_000)).prop_map(|(idle, ttl)| TurnsScenarioStep::Policy(idle, ttl)),
    ];
    let reports = prop_oneof![
        6 => Just(TurnsScenarioStep::Spawned),
        1 => Just(TurnsScenarioStep::SpawnFailed),
        8 => any::<bool>().prop_map(TurnsScenarioStep::Ready),
        3 => turn().prop_map(TurnsScenarioStep::Began),
        8 => (turn(), fate()).prop_map(|(turn, fate)| TurnsScenarioStep::Over(turn, fate)),
        2 => (0..3_u8).prop_map(TurnsScenarioStep::Asks),
        1 => (0..3_u8).prop_map(TurnsScenarioStep::Unasked),
        1 => Just(TurnsScenarioStep::Foreign),
        1 => Just(TurnsScenarioStep::Broken),
        2 => Just(TurnsScenarioStep::Exited),
        4 => Just(TurnsScenarioStep::Empty),
        4 => any::<u8>().prop_map(TurnsScenarioStep::Again),
        1 => Just(TurnsScenarioStep::KeeperDies),
        1 => Just(TurnsScenarioStep::Reboot),
        4 => (0..8000_u64).prop_map(TurnsScenarioStep::Pass),
        3 => Just(TurnsScenarioStep::PassUntilDue),
    ];
    prop_oneof![commands, reports]
}

pub(super) fn policy() -> impl Strategy<Value = SessionPolicy> {
    let unknown = prop_oneof![Just(OnUnknown::Hold), Just(OnUnknown::Continue)];
    let (idle_ms, ttl_ms) = (option::of(0..9000_u64), option::weighted(0.2, 0..40_000_u64));
    let failed = prop_oneof![Just(OnFailed::Hold), Just(OnFailed::Continue), Just(OnFailed::Retry)];
    (idle_ms, ttl_ms, unknown, failed).prop_map(|(idle_ms, ttl_ms, on_unknown, on_failed)| SessionPolicy {
        idle_ms,
        ttl_ms,
        archive_after_ms: None,
        on_unknown,
        on_failed,
        ..SessionPolicy::default()
    })
}
