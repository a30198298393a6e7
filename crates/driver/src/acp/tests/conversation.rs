//! Opening a conversation, and the reasons for failing.

use super::*;

#[test]
fn replayed_history_is_not_repeated() {
    let mut talk = AcpTestRun::new(&ConversationStart::Resume { id: SESSION.to_owned() });
    let mut introduction = introduction();
    introduction["result"]["agentCapabilities"]["sessionCapabilities"] = json!({});
    talk.hear_json(introduction);
    assert_eq!(talk.sent.last().unwrap()["method"], "session/load");
    talk.play(CODEX_LOAD, &["x"], &[]);
    assert_eq!(talk.updates, [AgentUpdate::Conversation { id: SESSION.to_owned() }, AgentUpdate::Ready]);
    talk.says(None, "new");
    talk.hear_json(json!({"id": "turn-1", "result": {"stopReason": "end_turn"}}));
    assert_eq!(talk.said(), "new");
    assert_eq!(talk.end().answer, "new");
}

#[test]
fn a_conversation_is_taken_up_in_the_best_way_there_is() {
    let resume = ConversationStart::Resume { id: "a".to_owned() };
    let fork = ConversationStart::Fork { of: "a".to_owned(), id: None };
    let load = json!({"loadSession": true});
    let all = json!({"loadSession": true, "sessionCapabilities": {"resume": {}, "fork": {}}});
    let none = json!({"sessionCapabilities": {"resume": null}});
    let cases = [
        (ConversationStart::New { id: None }, &none, Some("session/new")),
        (resume.clone(), &all, Some("session/resume")),
        (resume.clone(), &load, Some("session/load")),
        (resume, &none, None),
        (fork.clone(), &all, Some("session/fork")),
        (fork, &load, None),
    ];
    for (begin, able, method) in cases {
        let mut talk = AcpTestRun::new(&begin);
        assert_eq!(talk.sent[0]["params"]["clientCapabilities"]["fs"]["readTextFile"], false);
        talk.hear_json(
            json!({"id": "berth-init", "result": {"protocolVersion": 1, "agentCapabilities": able}}),
        );
        match method {
            Some(method) => {
                assert_eq!(talk.sent[1]["method"], method, "{begin:?}");
                assert_eq!(talk.sent[1]["params"]["cwd"], "/project");
                assert_eq!(talk.updates, []);
            }
            None => {
                let [AgentUpdate::Broken { trouble: AgentFailure::Protocol { .. } }] = &talk.updates[..]
                else {
                    panic!("{begin:?}: {:?}", talk.updates);
                };
            }
        }
    }
}

#[test]
fn the_reasons_for_failing_to_open_a_conversation_are_told_apart() {
    let gone = || AgentFailure::NoConversation { id: "a".to_owned() };
    let in_use = "Invalid request: This Codex session is in use by another Codex client: thread a already has an active writer";
    let cases = [
        (json!({"code": -32002, "message": "Resource not found", "data": {"sessionId": "a"}}), gone()),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"details": "Session a not found"}}),
            gone(),
        ),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"details": "no rollout found for thread id a"}}),
            gone(),
        ),
        (
            json!({"code": -32600, "message": "Invalid request: This Codex session is in use by another Codex client",
                   "data": {"reason": "thread_active_writer", "details": "thread a already has an active writer"}}),
            AgentFailure::InUse { said: in_use.to_owned() },
        ),
        (
            json!({"code": -32000, "message": "Authentication required"}),
            AgentFailure::NotLoggedIn { said: "Authentication required (it offers: API Key)".to_owned() },
        ),
        (
            json!({"code": -32603, "message": "no disk"}),
            AgentFailure::Protocol { said: "no disk".to_owned() },
        ),
        (json!({"code": -1}), AgentFailure::Protocol { said: "error -1".to_owned() }),
        (json!("nonsense"), AgentFailure::Protocol { said: "error 0".to_owned() }),
    ];
    for (error, trouble) in cases {
        let mut talk = AcpTestRun::new(&ConversationStart::Resume { id: "a".to_owned() });
        let mut introduction = introduction();
        introduction["result"]["authMethods"] = json!([{"id": "key", "name": "API Key"}]);
        talk.hear_json(introduction);
        talk.hear_json(json!({"id": "berth-open", "error": error}));
        assert_eq!(talk.updates, [AgentUpdate::Broken { trouble }], "{error}");
        talk.hear_json(json!({"id": "berth-open", "result": {"sessionId": "a"}}));
        assert_eq!(talk.updates.len(), 1, "broken is broken");
    }
    // A new conversation begins only if the keeper asks for it.
    let mut talk = AcpTestRun::new(&ConversationStart::Resume { id: "a".to_owned() });
    assert!(!talk.driver.begin_anew("/", &mut DriverOutput::default()), "nothing is gone yet");
    talk.hear_json(introduction());
    talk.hear_json(json!({"id": "berth-open", "error": {"code": -32002, "message": "Resource not found"}}));
    let mut out = DriverOutput::default();
    assert!(talk.driver.begin_anew("/", &mut out));
    assert!(String::from_utf8_lossy(&out.bytes).contains("session/new"), "{out:?}");
    talk.hear_json(json!({"id": "berth-anew", "result": {"sessionId": "b"}}));
    assert_eq!(talk.updates[1..], [AgentUpdate::Conversation { id: "b".to_owned() }, AgentUpdate::Ready]);
    // Without a conversation to take up, none can be missing.
    let mut talk = AcpTestRun::new(&ConversationStart::New { id: None });
    talk.hear_json(introduction());
    talk.hear_json(json!({"id": "berth-open", "error": {"code": -32002, "message": "cwd not found"}}));
    let trouble = AgentFailure::Protocol { said: "cwd not found".to_owned() };
    assert_eq!(talk.updates, [AgentUpdate::Broken { trouble }]);
}

#[test]
fn an_agent_of_another_version_or_without_a_session_cannot_be_used() {
    for answers in [
        vec![json!({"id": "berth-init", "result": {"protocolVersion": 2}})],
        vec![json!({"id": "berth-init", "error": {"code": -32601, "message": "what?"}})],
        vec![introduction(), json!({"id": "berth-open", "result": {"sessionId": 7}})],
    ] {
        let mut talk = AcpTestRun::new(&ConversationStart::New { id: None });
        answers.into_iter().for_each(|answer| talk.hear_json(answer));
        let [AgentUpdate::Broken { trouble: AgentFailure::Protocol { said } }] = &talk.updates[..] else {
            panic!("{:?}", talk.updates);
        };
        assert!(!said.is_empty());
    }
}

#[test]
fn a_conversation_that_moves_is_followed() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    talk.update(json!({"sessionUpdate": "session_info_update", "_meta": {"berth": {"sessionId": "new"}}}));
    assert_eq!(talk.updates, [AgentUpdate::Conversation { id: "new".to_owned() }]);
}

#[test]
fn a_reset_that_claude_keeps_to_itself_is_remarked() {
    let mut talk = AcpTestRun::new(&ConversationStart::New { id: None });
    talk.play(CLAUDE, &["/clear"], &[None]);
    assert_eq!(talk.remarks().len(), 1);
    assert!(talk.remarks()[0].contains("/clear"));
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "/clear");
    assert_eq!(talk.remarks().len(), 0);
}
