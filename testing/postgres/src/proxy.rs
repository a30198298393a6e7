//! A Unix socket in front of a server, that can lose answers.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Forwards connections. After [`CuttingProxy::lose_next_answer`], the next request of a client reaches the server, and
/// its answer does not come back: the connection is closed instead.
pub struct CuttingProxy {
    dir: PathBuf,
    is_ended: Arc<AtomicBool>,
    loses_next: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
    connections: Arc<Mutex<Vec<UnixStream>>>,
}

impl CuttingProxy {
    /// Listens in a new directory below `dir`, and forwards to `server`.
    pub fn start(dir: &Path, server: PathBuf) -> Self {
        let dir = dir.join("proxy");
        fs::create_dir(&dir).expect("a directory for the proxy");
        let listener = UnixListener::bind(dir.join(".s.PGSQL.5432")).expect("a socket");
        let (is_ended, loses_next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let acceptor = {
            let (is_ended, loses_next) = (Arc::clone(&is_ended), Arc::clone(&loses_next));
            let connections = Arc::clone(&connections);
            std::thread::spawn(move || {
                for client in listener.incoming() {
                    let (Ok(client), false) = (client, is_ended.load(Ordering::SeqCst)) else { return };
                    let Ok(server) = UnixStream::connect(&server) else { continue };
                    let copies = [&client, &server].map(|stream| stream.try_clone().expect("a descriptor"));
                    connections.lock().expect("no thread panics").extend(copies);
                    forward(client, server, Arc::clone(&loses_next));
                }
            })
        };
        Self { dir, is_ended, loses_next, acceptor: Some(acceptor), connections }
    }

    /// Directory of the socket, for the `host` of an address.
    pub fn socket_dir(&self) -> &Path {
        &self.dir
    }

    /// Loses the answer to the next request.
    pub fn lose_next_answer(&self) {
        self.loses_next.store(true, Ordering::SeqCst);
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::SeqCst);
        let _wakes_the_acceptor = UnixStream::connect(self.dir.join(".s.PGSQL.5432"));
        if let Some(acceptor) = self.acceptor.take() {
            let _panicked = acceptor.join();
        }
        for stream in self.connections.lock().expect("no thread panics").drain(..) {
            let _closed_already = stream.shutdown(Shutdown::Both);
        }
        let _removed_with_the_server = fs::remove_dir_all(&self.dir);
    }
}

/// Copies both ways. A request marks its connection when its answer is to be lost: what comes back then is read, so
/// that the server is done, and dropped.
fn forward(client: UnixStream, server: UnixStream, loses_next: Arc<AtomicBool>) {
    let is_losing = Arc::new(AtomicBool::new(false));
    let (mut from_client, mut to_server) =
        (client.try_clone().expect("a descriptor"), server.try_clone().expect("a descriptor"));
    let marks = Arc::clone(&is_losing);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from_client.read(&mut buffer) {
            if loses_next.swap(false, Ordering::SeqCst) {
                marks.store(true, Ordering::SeqCst);
            }
            if to_server.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _closed_already = to_server.shutdown(Shutdown::Both);
    });
    let (mut from_server, mut to_client) = (server, client);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from_server.read(&mut buffer) {
            if is_losing.load(Ordering::SeqCst) {
                break;
            }
            if to_client.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _closed_already = to_client.shutdown(Shutdown::Both);
        let _closed_already = from_server.shutdown(Shutdown::Both);
    });
}
