//! Whether systemd runs here, and what it does with a user's processes at the last logout.

use std::fs;

use crate::systemd::{self, Question};

/// What was found on a host that systemd runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Systemd {
    /// Whether the manager that this user may ask answers, or why it cannot be reached.
    pub manager: Result<(), String>,
    /// The user's name, if it can be told.
    pub user: Option<String>,
    /// Whether the user's manager outlives the last logout; nothing if logind does not say, and for root,
    /// whom that does not concern.
    pub lingers: Option<bool>,
    /// Whether logging out kills what the login started; nothing if logind does not say.
    pub kills_at_logout: Option<bool>,
}

/// Looks; nothing if something else runs this host.
pub fn look() -> Option<Systemd> {
    if !systemd::runs() {
        return None;
    }
    let user = rustix::process::geteuid();
    Some(Systemd {
        manager: systemd::answers(),
        user: user_name(user.as_raw()),
        lingers: if user.is_root() { None } else { systemd::ask(Question::Linger) },
        kills_at_logout: systemd::ask(Question::KillUserProcesses),
    })
}

/// The name of a user: from the list of local ones, else as the login said.
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
