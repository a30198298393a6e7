//! Asking systemd for a scope: a unit, and so a control group, for a process that runs already.
//!
//! Promise: a process is in its scope when [`SystemdManager::make_scope`] returns success, and only a process of this very
//! pid namespace is ever named to a manager. Every request has a timeout. Every failure is a reason for people to
//! read, and changes nothing else.
//! Not here: dividing the scope (see [`crate::cgroup::scope_of_mine`]), the wire format (see `dbus`).
//! Start with [`SystemdManager::reach`].

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cgroup::scope_name;
use crate::dbus::{DbusCallError, DbusConnection, DbusMethod, DbusWriter};
use crate::{reason, socket};

/// The timeout for all requests to systemd together.
const PATIENCE: Duration = Duration::from_secs(2);

const SYSTEMD: &str = "org.freedesktop.systemd1";
const LOGIND: &str = "org.freedesktop.login1";
const BUS: &str = "org.freedesktop.DBus";

/// True if systemd runs this host.
pub fn is_systemd_running() -> bool {
    // Systemd makes this directory before it starts anything.
    Path::new("/run/systemd/system").is_dir()
}

/// A manager that can make scopes for us: the system's for root, the user's own for others.
pub struct SystemdManager {
    bus: DbusConnection,
    slice: &'static str,
}

impl SystemdManager {
    /// Connects to the manager. Fails as well if a process is better off where we are.
    pub fn reach() -> Result<Self, String> {
        if !is_systemd_running() {
            return Err("systemd does not run here".to_owned());
        }
        let until = Instant::now() + PATIENCE;
        let user = rustix::process::geteuid();
        if !user.is_root() {
            let cgroups = fs::read_to_string("/proc/self/cgroup")
                .map_err(|error| format!("cannot read /proc/self/cgroup: {}", reason(&error)))?;
            outlives(&cgroups, user.as_raw(), |question| ask_logind(user.as_raw(), question, until))?;
        }
        Self::connect(until)
    }

    fn connect(until: Instant) -> Result<Self, String> {
        let user = rustix::process::geteuid();
        let uid = user.as_raw();
        if user.is_root() {
            return Self::at(Path::new("/run/systemd"), uid, "system.slice", until);
        }
        // `su` and `sudo -u` set no variable, or leave that of another user.
        let own = PathBuf::from(format!("/run/user/{uid}"));
        let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|named| *named != own);
        let manager = Self::at(&own.join("systemd"), uid, "app.slice", until);
        match (manager, named) {
            (Err(_), Some(named)) => Self::at(&named.join("systemd"), uid, "app.slice", until),
            (manager, _) => manager,
        }
    }

    fn at(dir: &Path, uid: u32, slice: &'static str, until: Instant) -> Result<Self, String> {
        let place = dir.join("private");
        let trouble = |why: &str| format!("cannot reach systemd at {}: {why}", place.display());
        let stream = socket::connect(dir, "private").map_err(|error| trouble(&reason(&error)))?;
        let peer = socket::peer_credentials(&stream).map_err(|error| trouble(&reason(&error)))?;
        if peer.uid != uid {
            return Err(trouble(&format!("user {} listens there", peer.uid)));
        }
        // In another pid namespace our pids mean other processes, or none.
        if peer.pid == 0 {
            return Err(trouble("it runs in another pid namespace"));
        }
        Self::over(stream, slice, until).map_err(|error| trouble(&error.to_string()))
    }

    fn over(stream: UnixStream, slice: &'static str, until: Instant) -> Result<Self, DbusCallError> {
        Ok(Self { bus: DbusConnection::open(stream, until)?, slice })
    }

    /// Moves the process `pid`, which must be a waiting child of ours, into a new scope, where it may make groups.
    /// `purpose` becomes part of the scope's name; see [`scope_name`].
    pub fn make_scope(mut self, pid: u32, purpose: &str, description: &str) -> Result<(), String> {
        let name = scope_name(purpose, pid);
        let answer = self.start_unit(pid, &name, description);
        // The actual group of the process decides, not the answer.
        let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if cgroups.lines().any(|line| line.rsplit('/').next() == Some(&name)) {
            return Ok(());
        }
        let why = match answer {
            Ok(result) if result == "done" => "the process did not arrive in it".to_owned(),
            Ok(result) => format!("its job ended with `{result}`"),
            Err(error) => error.to_string(),
        };
        Err(format!("systemd did not make the scope {name}: {why}"))
    }

    /// Starts the unit, and waits for its job. The job's result is `done` if it succeeded.
    fn start_unit(&mut self, pid: u32, name: &str, description: &str) -> Result<String, DbusCallError> {
        self.bus.call(&start_transient_unit(pid, name, description, self.slice))?;
        loop {
            let removed = self.bus.signal("JobRemoved")?;
            let mut arguments = removed.arguments();
            let (_number, _path) = (arguments.number(), arguments.text());
            if let (Some(unit), Some(result)) = (arguments.text(), arguments.text())
                && unit == name
            {
                return Ok(result.to_owned());
            }
        }
    }
}

fn start_transient_unit(pid: u32, name: &str, description: &str, slice: &str) -> DbusMethod<'static> {
    let mut arguments = DbusWriter::default();
    // `fail`: a unit of that name is not ours to replace.
    arguments.text(name).text("fail");
    arguments.array(8, |list| {
        list.property("Description", "s", |value| value.text(description))
            .property("Slice", "s", |value| value.text(slice))
            .property("CollectMode", "s", |value| value.text("inactive-or-failed"))
            .property("Delegate", "b", |value| value.number(1))
            .property("PIDs", "au", |value| value.array(4, |pids| pids.number(pid)))
    });
    arguments.array(8, |other_units| other_units);
    DbusMethod {
        destination: SYSTEMD,
        path: "/org/freedesktop/systemd1",
        interface: "org.freedesktop.systemd1.Manager",
        member: "StartTransientUnit",
        signature: "ssa(sv)a(sa(sv))",
        arguments,
    }
}

/// Checks that our manager answers; the error says why not. For display only: callers that want a
/// scope use [`SystemdManager::reach`].
pub(crate) fn is_reachable() -> Result<(), String> {
    SystemdManager::connect(Instant::now() + PATIENCE).map(drop)
}

/// The answer of logind to a question, if it gives one.
pub(crate) fn ask(question: LogindProperty) -> Option<bool> {
    ask_logind(rustix::process::geteuid().as_raw(), question, Instant::now() + PATIENCE).ok()
}

/// A setting that decides if a user's manager outlives the place we are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogindProperty {
    /// Does the manager run without a login?
    Linger,
    /// Does a logout kill the processes of the login?
    KillUserProcesses,
}

/// Checks that a scope of the user's manager lasts at least as long as the place we are in. A manager ends soon after
/// the last login of its user, unless that user lingers. Processes left in the scope of a login, however, keep both
/// the login and the manager alive, unless the host kills them at logout.
fn outlives(
    cgroups: &str,
    uid: u32,
    mut ask: impl FnMut(LogindProperty) -> Result<bool, String>,
) -> Result<(), String> {
    let has = |part: &str| cgroups.lines().flat_map(|line| line.split('/')).any(|one| one == part);
    let in_login = cgroups.contains(&format!("/user-{uid}.slice/session-"));
    if has(&format!("user@{uid}.service")) || ask(LogindProperty::Linger)? {
        return Ok(());
    }
    if in_login && ask(LogindProperty::KillUserProcesses)? {
        return Ok(());
    }
    let other = if in_login { "what this login started" } else { "this process" };
    Err(format!(
        "your systemd manager ends with your last logout, {other} does not: `loginctl enable-linger` keeps \
         the manager running"
    ))
}

fn ask_logind(uid: u32, question: LogindProperty, until: Instant) -> Result<bool, String> {
    let trouble = |why: String| format!("cannot ask logind: {why}");
    let stream =
        socket::connect(Path::new("/run/dbus"), "system_bus_socket").map_err(|e| trouble(reason(&e)))?;
    let mut bus = DbusConnection::open(stream, until).map_err(|error| trouble(reason(&error)))?;
    answer_of_logind(&mut bus, uid, question).map_err(|error| trouble(error.to_string()))
}

fn answer_of_logind(
    bus: &mut DbusConnection,
    uid: u32,
    question: LogindProperty,
) -> Result<bool, DbusCallError> {
    bus.call(&DbusMethod {
        destination: BUS,
        path: "/org/freedesktop/DBus",
        interface: BUS,
        member: "Hello",
        signature: "",
        arguments: DbusWriter::default(),
    })?;
    let user = format!("/org/freedesktop/login1/user/_{uid}");
    let (path, interface, name) = match question {
        LogindProperty::Linger => (user.as_str(), "org.freedesktop.login1.User", "Linger"),
        LogindProperty::KillUserProcesses => {
            ("/org/freedesktop/login1", "org.freedesktop.login1.Manager", "KillUserProcesses")
        }
    };
    let mut arguments = DbusWriter::default();
    arguments.text(interface).text(name);
    let answer = bus.call(&DbusMethod {
        destination: LOGIND,
        path,
        interface: "org.freedesktop.DBus.Properties",
        member: "Get",
        signature: "ss",
        arguments,
    });
    match (answer, question) {
        (Ok(answer), _) => {
            let mut value = answer.arguments();
            let is_flag = value.signature() == Some("b");
            Ok(value.number().filter(|_| is_flag) == Some(1))
        }
        // Logind knows every user who lingers or is logged in.
        (Err(DbusCallError::Refused(_)), LogindProperty::Linger) => Ok(false),
        (Err(error), _) => Err(error),
    }
}

#[cfg(test)]
mod tests;
