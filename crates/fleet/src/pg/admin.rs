//! Work of the owner of the schema: migrations, and the hosts that belong to the fleet.

use std::time::Duration;

use berth_core::SafeName;
use tokio::sync::watch;

use super::connection::OpenConnection;
use super::failed;
use super::url::FleetUrl;
use crate::{EngineError, FORMAT, HostId, migrations};

/// Limit of one migration, with the wait for another migrator.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(600);

/// A connection of the schema's owner.
pub struct FleetAdmin {
    open: OpenConnection,
}

/// Result of [`FleetAdmin::migrate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MigrationReport {
    /// Number of migrations that this call made. Another migrator may have made the others.
    pub made: u32,
    /// Format of the record now.
    pub format: u32,
}

impl FleetAdmin {
    /// Connects to the primary.
    pub async fn connect(url: &FleetUrl) -> Result<Self, EngineError> {
        Ok(Self { open: OpenConnection::open(url, 0, &watch::Sender::new(0)).await? })
    }

    /// Brings the record to [`FORMAT`]. Where it is newer and this version can read it, nothing is done.
    pub async fn migrate(&self) -> Result<MigrationReport, EngineError> {
        let mut made = 0;
        for (number, sql) in migrations::after(0) {
            let migration = self.migrate_one(number, sql);
            let is_made = tokio::time::timeout(MIGRATION_TIMEOUT, migration).await.unwrap_or_else(|_| {
                let cause = "another migrator, or a long transaction, is in the way".to_owned();
                Err(EngineError::OutcomeUnknown { call: "migrate", cause })
            })?;
            made += u32::from(is_made);
        }
        let format = self.format().await?.map_or(0, |(format, _)| format);
        Ok(MigrationReport { made, format })
    }

    /// Makes one migration unless it is made, in one transaction with the lock. Returns whether it made it.
    async fn migrate_one(&self, number: u32, sql: &str) -> Result<bool, EngineError> {
        self.execute(&format!("BEGIN; {}", migrations::LOCK)).await?;
        let done = self.migrate_locked(number, sql).await;
        self.execute(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        done
    }

    async fn migrate_locked(&self, number: u32, sql: &str) -> Result<bool, EngineError> {
        let (format, oldest_reader) = self.format().await?.unwrap_or((0, 0));
        if oldest_reader > FORMAT {
            return Err(EngineError::TooNew { format, oldest_reader, known: FORMAT });
        }
        let is_due = format < number;
        if is_due {
            self.execute(sql).await?;
        }
        Ok(is_due)
    }

    /// Format and oldest reader of the record, if there is one.
    async fn format(&self) -> Result<Option<(u32, u32)>, EngineError> {
        let failed = |error| failed("migrate", &error);
        let there = self.open.client.query_one("SELECT to_regclass('berth.fleet') IS NOT NULL", &[]).await;
        if !there.map_err(failed)?.get::<_, bool>(0) {
            return Ok(None);
        }
        let row = self.open.client.query_one("SELECT format, oldest_reader FROM berth.fleet", &[]).await;
        let row = row.map_err(failed)?;
        Ok(Some((row.get::<_, i32>(0).unsigned_abs(), row.get::<_, i32>(1).unsigned_abs())))
    }

    /// Adds a host that logs in with this role. The role exists already.
    pub async fn admit_host(&self, name: &SafeName, role: &str) -> Result<HostId, EngineError> {
        let sql = "SELECT berth.admit_host($1, $2::text::name)";
        let row = self.open.client.query_one(sql, &[&name.as_str(), &role]).await;
        let row = row.map_err(|error| failed("admit_host", &error))?;
        Ok(HostId(row.get::<_, i32>(0).unsigned_abs()))
    }

    /// Removes a host. Its role keeps no right; its sessions at rest can be claimed. False if there is no such host.
    pub async fn remove_host(&self, name: &SafeName) -> Result<bool, EngineError> {
        let row = self.open.client.query_one("SELECT berth.remove_host($1)", &[&name.as_str()]).await;
        let row = row.map_err(|error| failed("remove_host", &error))?;
        Ok(row.get(0))
    }

    async fn execute(&self, sql: &str) -> Result<(), EngineError> {
        let done = self.open.client.batch_execute(sql).await;
        done.map_err(|error| failed("migrate", &error))
    }
}
