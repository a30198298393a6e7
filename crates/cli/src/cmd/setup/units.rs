//! The text of berth's systemd units.
//!
//! Promise: systemd reads each path as it is, also one with spaces, quotes, `%` or `$`. A path that no unit can express
//! is refused.
//! Start with [`all`].

use std::path::Path;

use berth_api::Problem;

/// The first line of every unit, which marks files that berth wrote.
pub(super) const MARK: &str =
    "# Written by `berth setup systemd`, which changes it again; yours goes into a drop-in.";

/// Interval of the sweeps.
const SWEEP_EVERY: &str = "5min";

/// Time without a sign of life after which systemd restarts the gateway.
const WATCHDOG: &str = "90s";

/// Variables that name berth's directories and files, which a service does not inherit.
const CARRIED: [&str; 4] = ["BERTH_HOME", "BERTH_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME"];

/// A unit file of systemd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SystemdUnit {
    pub(super) name: &'static str,
    pub(super) text: String,
    /// True if setup enables and starts this unit, now and after every boot.
    pub(super) is_enabled: bool,
    /// True for the gateway's unit, which is optional.
    pub(super) is_gateway: bool,
}

/// All units, for this program and this environment.
pub(super) fn all() -> Result<Vec<SystemdUnit>, Problem> {
    let program = std::env::current_exe().map_err(|error| {
        Problem::refused(format!("cannot tell where this program is: {error}"))
            .hint("put berth into a directory that is in PATH")
    })?;
    let set = |name: &'static str| Some((name, std::env::var_os(name).filter(|value| !value.is_empty())?));
    let mut environment = Vec::new();
    for (name, value) in CARRIED.into_iter().filter_map(set) {
        // A relative path is resolved against the current directory: the service runs in another one.
        let value = std::path::absolute(&value).unwrap_or(value.into());
        environment.push((name, text_of(&value)?));
    }
    Ok(for_program(&text_of(&program)?, &environment))
}

fn for_program(program: &str, environment: &[(&str, String)]) -> Vec<SystemdUnit> {
    let environment: String = environment
        .iter()
        .map(|(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}"), false)))
        .collect();
    let program = quoted(program, true);
    let service = format!(
        "{MARK}\n\
         [Unit]\n\
         Description=berth: end and clean up leftovers of sessions whose keeper died\n\
         Documentation=man:berth-sweep(1)\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         ExecStart={program} sweep --quiet\n\
         {environment}\
         # The report is printed on request (`berth sweep`); errors go to the journal.\n\
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
         # 2: the config is not valid. 4: another gateway serves this state directory, or has the address.\n\
         RestartPreventExitStatus=2 4\n\
         # The gateway restarts its own stuck parts; the watchdog is for a process that is stuck as a whole.\n\
         WatchdogSec={WATCHDOG}\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n"
    );
    vec![
        SystemdUnit { name: "berth-sweep.service", text: service, is_enabled: false, is_gateway: false },
        SystemdUnit { name: "berth-sweep.timer", text: timer, is_enabled: true, is_gateway: false },
        SystemdUnit { name: "berth-gateway.service", text: gateway, is_enabled: true, is_gateway: true },
    ]
}

fn text_of(path: &Path) -> Result<String, Problem> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        Problem::refused(format!("{path:?} cannot be written into a unit"))
            .hint("use a path without line breaks that is UTF-8")
    })
}

/// Quotes a word for systemd. In a command line a dollar sign begins a variable.
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
    fn a_path_with_a_line_break_is_refused() {
        assert!(text_of(Path::new("/a\nExecStart=/bin/false")).is_err());
    }
}
