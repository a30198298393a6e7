//! One server: its directory, its process, and faults of it.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// Programs of the distribution's package `postgresql-15`.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
/// Account that the package makes; PostgreSQL refuses to run as root.
const ACCOUNT: &str = "postgres";
/// Superuser of each server, who may connect over its socket.
const SUPERUSER: &str = "postgres";
/// Limit of starting, stopping and promoting.
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// No shared memory outside of the directory is left by a server that is killed.
const SETTINGS: &str = "dynamic_shared_memory_type = mmap
fsync = on
full_page_writes = on
max_connections = 60
shared_buffers = 16MB
max_wal_size = 256MB
hot_standby = on
wal_sender_timeout = 2s
autovacuum_naptime = 10s
log_line_prefix = '%m [%p] %u '
";

/// Certificate and key of a server, as PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// PEM text of the certificate.
    pub certificate: String,
    /// PEM text of its key.
    pub key: String,
}

/// Choices for a server.
#[derive(Clone, Debug, Default)]
pub struct PgOptions {
    /// Listens on a loopback port as well, with TLS and passwords only.
    pub tls: Option<TlsFiles>,
}

/// A running server.
#[derive(Debug)]
pub struct PgServer {
    dir: PathBuf,
    port: Option<u16>,
    process: Option<Child>,
}

impl PgServer {
    /// Makes a cluster and starts it.
    pub fn start(options: &PgOptions) -> Self {
        let dir = private_dir();
        let mut server = Self { dir, port: None, process: None };
        run(server.program("initdb").args(["-U", SUPERUSER, "-A", "trust", "--no-locale", "-E", "UTF8"]));
        let mut settings = SETTINGS.to_owned();
        // Only the owner of the directory and root reach the socket in it.
        let mut access = "local all all trust\nlocal replication all trust\n".to_owned();
        if let Some(tls) = &options.tls {
            let port = free_port();
            server.port = Some(port);
            settings += &format!("listen_addresses = '127.0.0.1'\nport = {port}\nssl = on\n");
            access += "hostssl all all 127.0.0.1/32 scram-sha-256\n";
            server.write("server.crt", &tls.certificate);
            server.write("server.key", &tls.key);
        } else {
            settings += "listen_addresses = ''\n";
        }
        server.write("pg_hba.conf", &access);
        settings += &format!("unix_socket_directories = '{}'\n", server.dir.display());
        server.append_settings(&settings);
        server.boot();
        server
    }

    /// Makes a standby of this server under a name, and waits until it follows.
    pub fn standby(&self, name: &str) -> Self {
        let dir = private_dir();
        let mut standby = Self { dir, port: None, process: None };
        let (source, target) = (self.dir.display().to_string(), standby.data().display().to_string());
        run(unprivileged(&program("pg_basebackup"))
            .args(["-h", &source, "-p", &self.port_number().to_string(), "-U", SUPERUSER])
            .args(["-D", &target, "-X", "stream", "--checkpoint=fast"]));
        standby.write("standby.signal", "");
        let primary =
            format!("host={source} port={} user={SUPERUSER} application_name={name}", self.port_number());
        standby.append_settings(&format!(
            "unix_socket_directories = '{}'\nprimary_conninfo = '{primary}'\nwal_retrieve_retry_interval = 100ms\n",
            standby.dir.display()
        ));
        standby.boot();
        self.wait_for(
            &format!("SELECT count(*) FROM pg_stat_replication WHERE application_name = '{name}'"),
            "1",
        );
        standby
    }

    /// Lets commits wait for one of these standbys; none switches that off.
    pub fn set_synchronous_standbys(&self, names: &[&str]) {
        let list = if names.is_empty() { String::new() } else { format!("ANY 1 ({})", names.join(", ")) };
        self.query("postgres", &format!("ALTER SYSTEM SET synchronous_standby_names = '{list}'"));
        self.query("postgres", "SELECT pg_reload_conf()");
        self.wait_for("SHOW synchronous_standby_names", &list);
        if !names.is_empty() {
            self.wait_for("SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'quorum'", "t");
        }
    }

    /// Makes a standby the primary, and waits until it is.
    pub fn promote(&self) {
        self.query("postgres", "SELECT pg_promote()");
        self.wait_for("SELECT pg_is_in_recovery()", "f");
    }

    /// Directory of the socket, for the `host` of an address.
    pub fn socket_dir(&self) -> &Path {
        &self.dir
    }

    /// Loopback port, for a server with TLS.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(format!(".s.PGSQL.{}", self.port_number()))
    }

    /// Runs statements as superuser with `psql`, and returns their output without alignment.
    ///
    /// # Panics
    /// Panics if a statement fails.
    pub fn query(&self, database: &str, sql: &str) -> String {
        let output = self.try_query(database, sql);
        output.unwrap_or_else(|message| panic!("{sql}: {message}"))
    }

    /// Like [`PgServer::query`]; an error is the message of `psql`.
    pub fn try_query(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = Command::new(program("psql"));
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            SUPERUSER,
            "-d",
            database,
            "-c",
            sql,
        ]);
        psql.arg("-h").arg(&self.dir).args(["-p", &self.port_number().to_string()]);
        let output = psql.stdin(Stdio::null()).output().expect("psql is installed");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Polls until a query gives this output.
    ///
    /// # Panics
    /// Panics if that takes too long.
    pub fn wait_for(&self, sql: &str, expected: &str) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let given = self.try_query("postgres", sql);
            if given.as_deref() == Ok(expected) {
                return;
            }
            assert!(Instant::now() < deadline, "{sql}: {given:?}, not {expected:?}\n{}", self.log());
            std::thread::sleep(POLL);
        }
    }

    /// Kills all processes of the server at once, as a power cut does.
    pub fn kill(&mut self) {
        self.signal_all(Signal::STOP);
        self.signal_all(Signal::KILL);
        if let Some(mut process) = self.process.take() {
            process.wait().expect("a killed server ends");
        }
        // Children that lost their parent are gone when the kernel has closed their socket.
        let deadline = Instant::now() + LIMIT;
        while !self.processes().is_empty() && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }

    /// Stops all processes of the server where they are.
    pub fn freeze(&self) {
        self.signal_all(Signal::STOP);
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.signal_all(Signal::CONT);
    }

    /// Ends the server like `pg_ctl stop -m fast`, or immediately.
    pub fn stop(&mut self, is_fast: bool) {
        let Some(mut process) = self.process.take() else { return };
        let signal = if is_fast { Signal::INT } else { Signal::QUIT };
        let _gone_already = kill_process(pid(process.id()), signal);
        let deadline = Instant::now() + LIMIT;
        while process.try_wait().expect("a child").is_none() {
            if Instant::now() > deadline {
                self.process = Some(process);
                return self.kill();
            }
            std::thread::sleep(POLL);
        }
    }

    /// Starts a server that was stopped or killed.
    pub fn boot(&mut self) {
        assert!(self.process.is_none(), "the server runs");
        let log = fs::File::options().create(true).append(true).open(self.dir.join("log")).expect("a log");
        let process = self
            .program("postgres")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log)
            .spawn()
            .expect("postgres can be started");
        self.process = Some(process);
        self.wait_for("SELECT 1", "1");
    }

    /// Starts a killed primary again, with commits that wait for no standby: one that came back by mistake.
    pub fn boot_alone(&mut self) {
        // Settings of `ALTER SYSTEM`, which win over the others.
        let path = self.data().join("postgresql.auto.conf");
        let mut file = fs::File::options().append(true).open(path).expect("the settings of the cluster");
        file.write_all(b"synchronous_standby_names = ''\n").expect("the settings of the cluster");
        self.boot();
    }

    /// Log of the server.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    fn port_number(&self) -> u16 {
        self.port.unwrap_or(5432)
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = unprivileged(&program(name));
        command.arg("-D").arg(self.data());
        command
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.data().join(name);
        fs::write(&path, text).expect("a file of the cluster");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("own file");
        give_away(&path);
    }

    fn append_settings(&self, settings: &str) {
        let path = self.data().join("postgresql.conf");
        let mut file = fs::File::options().append(true).open(path).expect("the settings of the cluster");
        file.write_all(settings.as_bytes()).expect("the settings of the cluster");
    }

    /// The server and its children, found by their working directory.
    fn processes(&self) -> Vec<u32> {
        let data = self.data();
        let pids = fs::read_dir("/proc").expect("proc").flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == data)).collect()
    }

    fn signal_all(&self, signal: Signal) {
        for process in self.processes() {
            let _gone_already = kill_process(pid(process), signal);
        }
    }

    /// Removes the shared memory by which a killed server would notice its orphans.
    fn remove_shared_memory(&self) {
        let Ok(text) = fs::read_to_string(self.data().join("postmaster.pid")) else { return };
        let id = text.lines().nth(6).and_then(|line| line.split_whitespace().last());
        if let Some(id) = id {
            let _gone_already = Command::new("ipcrm").args(["-m", id]).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for PgServer {
    fn drop(&mut self) {
        self.thaw();
        self.stop(false);
        self.kill();
        self.remove_shared_memory();
        if std::thread::panicking() {
            let log = self.log();
            let from = log.len().saturating_sub(4000);
            eprintln!("log of {}:\n{}", self.dir.display(), log.get(from..).unwrap_or(&log));
        }
        let _shown_by_the_leak_check = fs::remove_dir_all(&self.dir);
    }
}

fn program(name: &str) -> PathBuf {
    let path = Path::new(PROGRAMS).join(name);
    assert!(path.exists(), "{} is missing: run testing/tools/install", path.display());
    path
}

/// A command under an account that PostgreSQL accepts.
fn unprivileged(program: &Path) -> Command {
    let mut command = if geteuid().is_root() {
        let mut command = Command::new("setpriv");
        let (user, group) = (format!("--reuid={ACCOUNT}"), format!("--regid={ACCOUNT}"));
        command.args([user.as_str(), group.as_str(), "--clear-groups", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.env("LC_ALL", "C").current_dir("/");
    command
}

/// A new directory with a short path, because paths of sockets are.
fn private_dir() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("berth-pg-{}-{number}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&dir).expect("a directory for a server");
    give_away(&dir);
    dir
}

/// Makes the account of the servers the owner.
fn give_away(path: &Path) {
    if geteuid().is_root() {
        let accounts = fs::read_to_string("/etc/passwd").expect("accounts");
        let entry = accounts.lines().find_map(|line| line.strip_prefix(&format!("{ACCOUNT}:")));
        let mut fields = entry.expect("the package made its account").split(':').skip(1);
        let mut id = || fields.next().and_then(|field| field.parse().ok());
        chown(path, id(), id()).expect("root may give files away");
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    listener.local_addr().expect("an address").port()
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("a program of PostgreSQL can be started");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn pid(number: u32) -> Pid {
    i32::try_from(number).ok().and_then(Pid::from_raw).expect("a process id")
}
