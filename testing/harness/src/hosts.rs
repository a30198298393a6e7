//! Two hosts and a real ssh between them.
//!
//! The daemon is started by the client itself for each connection, so that there is no port and nothing stays behind.
//! The other host is another state directory. Start with [`TestHostPair::new`], then [`TestHostPair::added`].

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::{CommandOutput, TestEnvironment, said};

/// Two hosts: `here`, and the one `there`, which ssh calls `box`.
pub struct TestHostPair {
    /// The host on which commands are run.
    pub here: TestEnvironment,
    /// The other host, reached over ssh.
    pub there: TestEnvironment,
    /// The ssh command that knows the other host, as `hosts.ssh` in the config has it.
    pub ssh: String,
}

impl TestHostPair {
    /// Two labs, and keys that let one into the other.
    pub fn new(here: TestEnvironment, there: TestEnvironment) -> Self {
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
        // The daemon wants a directory to lock itself into, before any client is known.
        let _ = fs::create_dir("/run/sshd");
        let ssh = format!("ssh -F {}", dir.join("ssh_config").display());
        Self { here, there, ssh }
    }

    /// Adds the other host as `box`.
    #[must_use]
    pub fn added(self) -> Self {
        let program = self.here.berth.display().to_string();
        self.ok(&["hosts", "add", "box", "--berth", &program]);
        self
    }

    /// Writes the ssh command for the other host into the config: for processes that have only our environment.
    pub fn configure(&self) {
        let before = fs::read_to_string(self.here.config()).unwrap_or_default();
        let config = format!("{before}[hosts]\nssh = {:?}\n", self.ssh);
        fs::write(self.here.config(), config).expect("the config");
    }

    /// The other host has no program in its PATH from now on, and no start-up file that changes that: a machine may have a
    /// berth of its own.
    pub fn without_programs(&self) {
        let path = self.here.dir().join("ssh/sshd_config");
        let text = fs::read_to_string(&path).expect("a file of the lab");
        let set = format!("SetEnv PATH=/nowhere HOME={} ", self.there.dir().display());
        assert!(text.contains("SetEnv "), "{text}");
        fs::write(&path, text.replace("SetEnv ", &set)).expect("a file of the lab");
    }

    /// From now on the other host does not answer.
    pub fn cut(&self) {
        self.exchange("/usr/sbin/sshd -i", "false -i");
    }

    /// The other host answers again.
    pub fn mend(&self) {
        self.exchange("false -i", "/usr/sbin/sshd -i");
    }

    fn exchange(&self, old: &str, new: &str) {
        let path = self.here.dir().join("ssh/ssh_config");
        let text = fs::read_to_string(&path).expect("a file of the lab");
        assert!(text.contains(old), "{text}");
        fs::write(&path, text.replace(old, new)).expect("a file of the lab");
    }

    /// A command here, to be started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.here.command(args);
        command.env("BERTH_HOSTS_SSH", &self.ssh);
        command
    }

    /// Runs berth here.
    pub fn berth(&self, args: &[&str]) -> CommandOutput {
        said(self.command(args).output().expect("berth can be started"))
    }

    /// Like [`Self::berth`] for a command that must succeed; returns its output.
    pub fn ok(&self, args: &[&str]) -> String {
        let said = self.berth(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out.trim_end().to_owned()
    }
}
