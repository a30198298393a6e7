//! An answer that the keeper does not hear at first: the user of the editor has clicked, and cannot click again.

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use berth_api::Problem;
use berth_api::frame::{self, FrameKind};
use berth_api::message::KeeperAnswer;
use berth_harness::{TestEnvironment, wait_until};
use serde_json::{Value, json};

use crate::acp::{AcpEditor, lab};

/// How often an answer is sent to a keeper that does not hear it.
const TRIES: usize = 5;

/// A listener in place of a session's keeper that refuses every client as full. The keeper itself goes on, and clients
/// that are connected to it stay connected.
struct RefusingListener {
    sock: PathBuf,
    aside: PathBuf,
    heard: &'static AtomicUsize,
    is_over: &'static AtomicBool,
    thread: Option<JoinHandle<()>>,
}

impl RefusingListener {
    fn in_place_of(lab: &TestEnvironment, session: &str) -> Self {
        let (sock, aside) =
            (lab.session_dir(session).join("sock"), lab.session_dir(session).join("sock.aside"));
        std::fs::rename(&sock, &aside).expect("the keeper's socket");
        let listener = UnixListener::bind(&sock).expect("a socket in its place");
        let (heard, is_over): (&AtomicUsize, &AtomicBool) =
            (Box::leak(Box::default()), Box::leak(Box::default()));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a client");
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let problem = Problem::full("there is no room for another client");
                let answer = serde_json::to_vec(&KeeperAnswer::Problem { problem }).expect("plain data");
                // Reads the request first, so that the answer is not lost with it. A status request does
                // not count as an attempt.
                let mut asked = vec![0; 64 * 1024];
                let count = stream.read(&mut asked).unwrap_or(0);
                let is_answer = asked[..count].windows(10).any(|at| at == b"answer_ask");
                heard.fetch_add(usize::from(is_answer), Ordering::SeqCst);
                let _ = frame::write_frame(&mut stream, FrameKind::Answer, &[&answer]);
            }
        });
        Self { sock, aside, heard, is_over, thread: Some(thread) }
    }

    fn heard(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }

    /// Puts the keeper back.
    fn leave(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.is_over.store(true, Ordering::SeqCst);
        let _ = std::os::unix::net::UnixStream::connect(&self.sock);
        std::fs::rename(&self.aside, &self.sock).expect("the keeper's socket");
        thread.join().expect("it ends");
    }
}

impl Drop for RefusingListener {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A session whose agent asks something, and the question in the editor.
fn asked(lab: &TestEnvironment) -> (AcpEditor, String, u64, Value) {
    let mut editor = AcpEditor::start(lab, &[]);
    let session = editor.new_session(lab.dir());
    let prompt = editor.prompt(&session, "ask:Bash:rm -rf x");
    let question = editor.rpc.talk.wait("a question", |said| said["method"] == "session/request_permission");
    (editor, session, prompt, question)
}

fn allow(editor: &mut AcpEditor, question: &Value) {
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}});
    editor.rpc.talk.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome}));
}

#[test]
fn an_answer_that_the_keeper_does_not_hear_is_given_again_until_it_does() {
    let lab = lab();
    let (mut editor, session, prompt, question) = asked(&lab);
    let mut deaf = RefusingListener::in_place_of(&lab, &session);
    allow(&mut editor, &question);
    wait_until("the first try", || deaf.heard() >= 1);
    deaf.leave();
    assert_eq!(editor.rpc.answer(prompt)["result"]["stopReason"], "end_turn");
    editor.hears("agent_message_chunk", "Bash: allow-once");
    assert_eq!(lab.events(&session, "answered").len(), 1, "and once is enough");
}

#[test]
fn an_answer_that_never_arrives_is_said_so_and_the_question_stays() {
    let lab = lab();
    let (mut editor, session, prompt, question) = asked(&lab);
    let mut deaf = RefusingListener::in_place_of(&lab, &session);
    allow(&mut editor, &question);
    let told = editor.hears("agent_message_chunk", "your answer did not arrive");
    assert!(told.to_string().contains(&format!("berth answer {session} allow-once")), "{told}");
    assert_eq!(deaf.heard(), TRIES);
    deaf.leave();
    assert_eq!(lab.show(&session)["state"], "needs-you");
    lab.ok(["answer", &session, "deny"]);
    assert_eq!(editor.rpc.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(editor.said().contains("Bash: reject"), "{:?}", editor.told());
}
