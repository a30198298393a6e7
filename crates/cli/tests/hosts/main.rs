//! Other hosts, over a real ssh: its daemon is started by the client itself for each connection, so that there is no
//! port and nothing stays behind. The other host is another state directory.

mod fleet;
mod verbs;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use berth_harness::{Lab, Said, said};

/// Two hosts: `here`, and the one `there`, which ssh calls `box`.
struct Hosts {
    here: Lab,
    there: Lab,
    ssh: String,
}

fn lab() -> Lab {
    Lab::new(env!("CARGO_BIN_EXE_berth"))
}

impl Hosts {
    fn new() -> Self {
        let (here, there) = (lab(), lab());
        let dir = here.dir().join("ssh");
        fs::create_dir(&dir).expect("a directory of the lab");
        let key = |name: &str| -> PathBuf {
            let path = dir.join(name);
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status();
            assert!(made.expect("ssh-keygen is installed").success());
            path
        };
        let (host_key, user_key) = (key("host"), key("user"));
        let public = |path: &PathBuf| fs::read_to_string(path.with_extension("pub")).expect("a key");
        fs::write(dir.join("authorized"), public(&user_key)).expect("a file of the lab");
        fs::write(dir.join("known"), format!("box {}", public(&host_key))).expect("a file of the lab");
        let daemon = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\nLogLevel ERROR\n\
             PermitRootLogin yes\nPrintMotd no\nSetEnv BERTH_HOME={} BERTH_CONFIG={}\n",
            host_key.display(),
            dir.join("authorized").display(),
            there.home().display(),
            there.config().display(),
        );
        fs::write(dir.join("sshd_config"), daemon).expect("a file of the lab");
        let user = Command::new("id").arg("-un").output().expect("id").stdout;
        let client = format!(
            "Host box\n  ProxyCommand /usr/sbin/sshd -i -f {}\n  User {}\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {}\n  HostKeyAlias box\n  LogLevel ERROR\n\
             Host away\n  ProxyCommand false\n",
            dir.join("sshd_config").display(),
            String::from_utf8_lossy(&user).trim(),
            user_key.display(),
            dir.join("known").display(),
        );
        fs::write(dir.join("ssh_config"), client).expect("a file of the lab");
        fs::set_permissions(&host_key, fs::Permissions::from_mode(0o600)).expect("a key");
        // The daemon wants a directory to lock itself into, before anybody is known.
        let _ = fs::create_dir("/run/sshd");
        let ssh = format!("ssh -F {}", dir.join("ssh_config").display());
        Self { here, there, ssh }
    }

    /// The same with the other host added as `box`.
    fn added() -> Self {
        let hosts = Self::new();
        let said = hosts.berth(&["hosts", "add", "box", "--berth", env!("CARGO_BIN_EXE_berth")]);
        assert_eq!(said.code, 0, "{said:?}");
        hosts
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.here.command(args);
        command.env("BERTH_HOSTS_SSH", &self.ssh);
        command
    }

    /// Runs berth here.
    fn berth(&self, args: &[&str]) -> Said {
        said(self.command(args).output().expect("berth can be started"))
    }

    fn ok(&self, args: &[&str]) -> String {
        let said = self.berth(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out.trim_end().to_owned()
    }
}
