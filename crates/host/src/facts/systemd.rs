//! The presence of systemd on this host, and its treatment of a user's processes at the last logout.
//!
//! Not here: making scopes (see `systemd` of this crate).
//! Start with [`systemd_facts`].

use std::fs;

use crate::systemd::{self, LogindProperty};

/// The state of systemd on a host that it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemdFacts {
    /// Success if the manager that this user may ask answers; the error says why not.
    pub manager: Result<(), String>,
    /// The user's name, if it is known.
    pub user: Option<String>,
    /// True if the user's manager outlives the last logout. `None` if logind does not answer, and for root, whose
    /// processes run under the system manager.
    pub lingers: Option<bool>,
    /// True if logging out kills the processes of the login; `None` if logind does not answer.
    pub kills_at_logout: Option<bool>,
}

/// Asks systemd and logind; `None` if another init system runs this host.
pub fn systemd_facts() -> Option<SystemdFacts> {
    if !systemd::is_systemd_running() {
        return None;
    }
    let user = rustix::process::geteuid();
    Some(SystemdFacts {
        manager: systemd::is_reachable(),
        user: user_name(user.as_raw()),
        lingers: if user.is_root() { None } else { systemd::ask(LogindProperty::Linger) },
        kills_at_logout: systemd::ask(LogindProperty::KillUserProcesses),
    })
}

/// The name of a user: from the list of local users, else from the environment of the login.
fn user_name(uid: u32) -> Option<String> {
    let local = fs::read_to_string("/etc/passwd").ok().and_then(|text| name_in(&text, uid));
    local.or_else(|| std::env::var("LOGNAME").or_else(|_| std::env::var("USER")).ok())
}

fn name_in(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\nbroken\n";
        assert_eq!(name_in(passwd, 1000).as_deref(), Some("ada"));
        assert_eq!(name_in(passwd, 1), None);
    }
}
