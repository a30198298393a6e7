//! The fake model over HTTP, without any agent: the bytes, the record, and that it goes away.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::{AnswerState, FakeModel, ModelApi};

/// Opens a connection and sends a request; the caller reads the answer.
fn ask(model: &FakeModel, method: &str, path: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", model.port())).expect("it listens");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .expect("it reads");
    stream
}

/// Reads to the end of the connection.
fn all(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

fn messages(prompt: &str, stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "max_tokens": 100, "tools": [{"name": "Bash"}],
        "messages": [{"role": "user", "content": prompt}]})
}

fn responses(prompt: &str) -> Value {
    json!({"model": "m", "stream": true, "tools": [{"type": "function", "name": "exec_command"}], "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}]})
}

#[test]
fn both_apis_echo_in_their_own_events() {
    let model = FakeModel::start().expect("a model");
    let answer = all(ask(&model, "POST", "/v1/messages?beta=true", &messages("hello", true)));
    for event in ["message_start", "content_block_delta", "ECHO: hello", "end_turn", "message_stop"] {
        assert!(answer.contains(event), "no {event} in {answer}");
    }
    let answer = all(ask(&model, "POST", "/v1/responses", &responses("hello")));
    for event in ["response.created", "response.output_text.delta", "ECHO: hello", "response.completed"] {
        assert!(answer.contains(event), "no {event} in {answer}");
    }
    assert_eq!(model.prompts(), ["hello", "hello"]);
    let apis: Vec<ModelApi> = model.turns().iter().map(|asked| asked.api).collect();
    assert_eq!(apis, [ModelApi::Messages, ModelApi::Responses]);
}

#[test]
fn a_request_without_a_stream_gets_one_object() {
    let model = FakeModel::start().expect("a model");
    let answer = all(ask(&model, "POST", "/v1/messages", &messages("THINK TOOL echo hi", false)));
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    let body: Value = serde_json::from_str(body).expect("an object");
    assert_eq!(body["stop_reason"], "tool_use");
    assert_eq!(body["content"][0]["type"], "thinking");
    assert_eq!(body["content"][1]["input"]["command"], "echo hi");
}

#[test]
fn a_held_answer_waits_for_its_release() {
    let model = FakeModel::start().expect("a model");
    let held = ask(&model, "POST", "/v1/messages", &messages("HOLD here", true));
    model.arrived("here");
    assert_eq!(model.turns()[0].answer, AnswerState::Open);
    model.release("here");
    assert!(all(held).contains("ECHO: HOLD here"));
    model.wait("the end of the answer", |asked| asked[0].answer == AnswerState::Whole);
    assert_eq!(model.arrivals("here"), 1);
    // A released name stays released, over HTTP as well.
    assert!(all(ask(&model, "POST", "/v1/messages", &messages("HOLD here", true))).contains("message_stop"));
    let held = ask(&model, "POST", "/v1/responses", &responses("HOLD there"));
    model.arrived("there");
    all(ask(&model, "POST", "/release/there", &Value::Null));
    assert!(all(held).contains("response.completed"));
}

#[test]
fn an_agent_that_hangs_up_is_noticed() {
    let model = FakeModel::start().expect("a model");
    let held = ask(&model, "POST", "/v1/responses", &responses("HOLD for-ever"));
    model.arrived("for-ever");
    assert_eq!(model.turns()[0].answer, AnswerState::Open);
    drop(held);
    model
        .wait("that it hung up", |asked| asked.first().is_some_and(|asked| asked.answer == AnswerState::Cut));
}

#[test]
fn a_cut_answer_has_no_last_chunk() {
    let model = FakeModel::start().expect("a model");
    let answer = all(ask(&model, "POST", "/v1/messages", &messages("CUT", true)));
    assert!(answer.contains("half of it") && !answer.ends_with("0\r\n\r\n"), "{answer}");
    assert!(all(ask(&model, "POST", "/v1/messages", &messages("whole", true))).ends_with("0\r\n\r\n"));
}

#[test]
fn errors_have_their_status_and_may_be_counted() {
    let model = FakeModel::start().expect("a model");
    let answer = all(ask(&model, "POST", "/v1/messages", &messages("ERROR 529", true)));
    assert!(answer.starts_with("HTTP/1.1 529 ") && answer.contains("overloaded_error"), "{answer}");
    for status in ["500", "500", "200"] {
        let answer = all(ask(&model, "POST", "/v1/responses", &responses("ERROR 500 2")));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

#[test]
fn housekeeping_is_answered_and_set_apart() {
    let model = FakeModel::start().expect("a model");
    let quota =
        json!({"model": "small", "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]});
    assert!(all(ask(&model, "POST", "/v1/messages", &quota)).contains("\"ok\""));
    let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}});
    let title = json!({"model": "small", "output_config": {"format": {"schema": schema}}, "messages": []});
    assert!(all(ask(&model, "POST", "/v1/messages", &title)).contains("title"));
    assert!(all(ask(&model, "POST", "/v1/messages/count_tokens", &quota)).contains("input_tokens"));
    assert!(all(ask(&model, "HEAD", "/", &Value::Null)).starts_with("HTTP/1.1 200"));
    assert!(all(ask(&model, "GET", "/v1/models", &Value::Null)).starts_with("HTTP/1.1 404"));
    assert!(all(ask(&model, "POST", "/v1/messages", &Value::Null)).starts_with("HTTP/1.1 400"));
    assert_eq!(model.requests().len(), 6);
    assert_eq!(model.turns(), []);
}

#[test]
fn nothing_listens_after_the_drop() {
    let model = FakeModel::start().expect("a model");
    let port = model.port();
    let held = ask(&model, "POST", "/v1/messages", &messages("HOLD x", true));
    model.arrived("x");
    drop(model);
    assert!(!all(held).ends_with("0\r\n\r\n"), "a held answer must not end as if it were whole");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the port is still open");
}
