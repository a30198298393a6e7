//! The units of systemd that berth brings along, word for word.
//!
//! Promise: whatever is in a path, systemd reads it as that path.
//! Start with [`all`].

use std::path::Path;

use berth_api::{Code, Problem};

/// The first line of every unit, by which we know our own.
pub(super) const MARK: &str =
    "# Written by `berth setup systemd`, which changes it again; yours goes into a drop-in.";

/// How often records are compared with reality when nobody types a command.
const SWEEP_EVERY: &str = "5min";

/// How long systemd waits for a sign of life of the gateway.
const WATCHDOG: &str = "90s";

/// Variables that say where things are: a service does not inherit them.
const CARRIED: [&str; 4] = ["BERTH_HOME", "BERTH_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME"];

/// One file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) text: String,
    /// Whether it is this one that is started, now and after every boot.
    pub(super) is_enabled: bool,
    /// Whether it is of the gateway, which not everybody wants.
    pub(super) is_gateway: bool,
}

/// Every unit there is, for this program and this environment.
pub(super) fn all() -> Result<Vec<Unit>, Problem> {
    let program = std::env::current_exe().map_err(|error| {
        Problem::new(Code::Refused, format!("cannot tell where this program is: {error}"))
            .hint("put berth into a directory that is in PATH")
    })?;
    let set = |name: &'static str| Some((name, std::env::var_os(name).filter(|value| !value.is_empty())?));
    let mut environment = Vec::new();
    for (name, value) in CARRIED.into_iter().filter_map(set) {
        // What is relative means this directory, and no other.
        let value = std::path::absolute(&value).unwrap_or(value.into());
        environment.push((name, text_of(&value)?));
    }
    Ok(for_program(&text_of(&program)?, &environment))
}

fn for_program(program: &str, environment: &[(&str, String)]) -> Vec<Unit> {
    let environment: String = environment
        .iter()
        .map(|(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}"), false)))
        .collect();
    let program = quoted(program, true);
    let service = format!(
        "{MARK}\n\
         [Unit]\n\
         Description=berth: compare records with reality, clear up what is proven ours\n\
         Documentation=man:berth-sweep(1)\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         ExecStart={program} sweep --quiet\n\
         {environment}\
         # The report is for people who ask; what goes wrong is in the journal.\n\
         StandardOutput=null\n\
         Nice=10\n"
    );
    let timer = format!(
        "{MARK}\n\
         [Unit]\n\
         Description=berth: sweep every {SWEEP_EVERY}\n\
         Documentation=man:berth-sweep(1)\n\
         \n\
         [Timer]\n\
         OnStartupSec=1min\n\
         OnUnitActiveSec={SWEEP_EVERY}\n\
         AccuracySec=30s\n\
         \n\
         [Install]\n\
         WantedBy=timers.target\n"
    );
    let gateway = format!(
        "{MARK}\n\
         [Unit]\n\
         Description=berth: the gateway\n\
         Documentation=man:berth-serve(1)\n\
         \n\
         [Service]\n\
         Type=notify\n\
         ExecStart={program} serve\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         {environment}\
         # Sessions are not part of this service: stopping it stops one process.\n\
         KillMode=process\n\
         TimeoutStopSec=20\n\
         Restart=on-failure\n\
         # 2: the config makes no sense. 4: another gateway serves this state directory, or has the address.\n\
         RestartPreventExitStatus=2 4\n\
         # It looks after itself; this is for a process that cannot even do that.\n\
         WatchdogSec={WATCHDOG}\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n"
    );
    vec![
        Unit { name: "berth-sweep.service", text: service, is_enabled: false, is_gateway: false },
        Unit { name: "berth-sweep.timer", text: timer, is_enabled: true, is_gateway: false },
        Unit { name: "berth-gateway.service", text: gateway, is_enabled: true, is_gateway: true },
    ]
}

fn text_of(path: &Path) -> Result<String, Problem> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        Problem::new(Code::Refused, format!("{path:?} cannot be written into a unit"))
            .hint("use a path without line breaks that is UTF-8")
    })
}

/// A word as systemd reads it. In a command line a dollar begins a variable.
fn quoted(word: &str, is_command: bool) -> String {
    let mut text = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '%' => text.push_str("%%"),
            '$' if is_command => text.push_str("$$"),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_so_that_systemd_reads_it_as_it_is() {
        let units =
            for_program("/opt/my berth/100%/$x\"\\/berth", &[("BERTH_HOME", "/home/a b/$y%".to_owned())]);
        let service = &units[0].text;
        assert!(
            service.contains("ExecStart=\"/opt/my berth/100%%/$$x\\\"\\\\/berth\" sweep --quiet\n"),
            "{service}"
        );
        assert!(service.contains("Environment=\"BERTH_HOME=/home/a b/$y%%\"\n"), "{service}");
        assert!(units.iter().all(|unit| unit.text.starts_with(MARK)));
    }

    #[test]
    fn what_no_unit_can_say_is_refused() {
        assert!(text_of(Path::new("/a\nExecStart=/bin/false")).is_err());
    }
}
