//! Formats of the record, and those that change it.

use berth_fleet::pg::{MigrationReport, PgEngine};
use berth_fleet::{EngineError, FORMAT, sql_from};
use berth_test_postgres::{PgOptions, PgServer};

use crate::postgres::{OWNER, PATIENT, TestFleet, run};

#[test]
fn l22_a_record_that_is_too_new_is_refused_and_its_format_named() {
    run(async {
        let fleet = TestFleet::start(1).await;
        let connect = || PgEngine::connect(fleet.url("host1"), PATIENT);
        fleet.server.query("berth", "UPDATE berth.fleet SET format = 97");
        assert!(connect().await.is_ok(), "a newer format that old versions can read");
        fleet.server.query("berth", "UPDATE berth.fleet SET oldest_reader = 96");
        let refused = connect().await.err().expect("a format that this version cannot read");
        assert!(matches!(refused, EngineError::TooNew { format: 97, oldest_reader: 96, known: FORMAT }));
        assert!(refused.to_string().contains("97"), "{refused}");
        let refused = fleet.admin().await.migrate().await;
        assert!(matches!(refused, Err(EngineError::TooNew { format: 97, .. })), "{refused:?}");
        fleet.server.query("berth", "UPDATE berth.fleet SET format = 0, oldest_reader = 0");
        let refused = connect().await.err();
        assert!(matches!(refused, Some(EngineError::TooOld { format: 0, known: FORMAT })), "{refused:?}");
    });
}

#[test]
fn l22_of_two_migrators_at_once_one_migrates() {
    run(async {
        let fleet = TestFleet { server: PgServer::start(&PgOptions::default()) };
        fleet.make_database();
        let admins = [fleet.admin().await, fleet.admin().await];
        let (first, second) = tokio::join!(admins[0].migrate(), admins[1].migrate());
        let reports = [first.expect("migrated"), second.expect("migrated")];
        assert_eq!(reports.iter().map(|report| report.made).sum::<u32>(), FORMAT, "{reports:?}");
        assert!(reports.iter().all(|report| report.format == FORMAT), "{reports:?}");
    });
}

#[test]
fn the_printed_sql_makes_the_record() {
    run(async {
        let fleet = TestFleet { server: PgServer::start(&PgOptions::default()) };
        fleet.make_database();
        fleet.server.query("berth", &format!("SET SESSION AUTHORIZATION {OWNER}; {}", sql_from(0)));
        let report = fleet.admin().await.migrate().await.expect("nothing to do");
        assert_eq!(report, MigrationReport { made: 0, format: FORMAT });
        let again = fleet.server.try_query("berth", &sql_from(0));
        assert!(again.as_ref().is_err_and(|message| message.contains("already exists")), "{again:?}");
        assert_eq!(sql_from(FORMAT), "");
    });
}
