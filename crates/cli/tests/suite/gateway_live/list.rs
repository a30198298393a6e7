//! The stream of the list of sessions.

use berth_harness::ServerEvent;
use serde_json::Value;

use crate::gateway_live::lab;

fn about<'a>(kind: &'a str, id: &'a str) -> impl Fn(&ServerEvent) -> bool + use<'a> {
    move |event| event.event == kind && event.json()["id"] == id
}

#[test]
fn the_list_begins_with_all_sessions_and_then_tells_which_changed_came_and_went() {
    let lab = lab();
    let gateway = lab.serve();
    let first = lab.start(&["hang"]);
    let over = lab.start(&["exit:3"]);
    lab.berth(["wait", &over, "--for", "exit"]);
    let put_away = lab.start(&["exit:0"]);
    lab.berth(["wait", &put_away, "--for", "exit"]);
    lab.ok(["archive", &put_away]);
    let ids = |event: &ServerEvent| -> Vec<String> {
        let sessions = event.json()["sessions"].as_array().expect("a list").clone();
        let mut ids: Vec<_> =
            sessions.iter().filter_map(|status| Some(status["id"].as_str()?.to_owned())).collect();
        ids.sort();
        ids
    };
    let sorted = |ids: &[&String]| {
        let mut ids: Vec<String> = ids.iter().map(|id| (*id).clone()).collect();
        ids.sort();
        ids
    };
    let mut list = gateway.events("/v1/events", &[]);
    let hello = list.next().expect("hello");
    assert_eq!((hello.event.as_str(), ids(&hello)), ("hello", sorted(&[&first, &over])));
    let mut all = gateway.events("/v1/events?all=true", &[]);
    assert_eq!(ids(&all.next().expect("hello")), sorted(&[&first, &over, &put_away]));
    lab.ok(["tag", &first, "mine"]);
    let is_tagged = |event: &ServerEvent| {
        about("session", &first)(event) && event.json()["tags"] == Value::from(vec!["mine"])
    };
    list.wait_for("the tag", is_tagged);
    all.wait_for("the tag", is_tagged);
    let second = lab.start(&["hang"]);
    list.wait_for("the new one", about("session", &second));
    lab.kill_keeper(&second);
    list.wait_for("its loss", |event| about("session", &second)(event) && event.json()["state"] == "lost");
    lab.ok(["purge", &over, "--yes"]);
    list.wait_for("the end", about("gone", &over));
    // A client that comes back is sent the list again.
    drop((list, all));
    let mut list = gateway.events("/v1/events", &[]);
    assert_eq!(ids(&list.next().expect("hello")), sorted(&[&first, &second]));
    gateway.get("/v1/events?everything").problem(400, "usage");
}

#[test]
fn the_list_begins_in_the_order_of_ls() {
    let lab = lab();
    let gateway = lab.serve();
    // A session that needs no attention first, then those that do, in an order that is neither their age nor their id.
    let over = lab.start(&["exit:0"]);
    lab.berth(["wait", &over, "--for", "exit"]);
    let lost = lab.start(&["hang"]);
    lab.kill_keeper(&lost);
    for _ in 0..6 {
        lab.start(&["hang"]);
    }
    let listed: Vec<String> = lab.ok(["ls", "--ids"]).lines().map(str::to_owned).collect();
    assert_eq!((listed.len(), &listed[0], &listed[7]), (8, &lost, &over));
    let ids = |sessions: &Value| -> Vec<String> {
        let sessions = sessions["sessions"].as_array().expect("a list").iter();
        sessions.map(|status| status["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(&gateway.get("/v1/sessions").ok()), listed);
    let hello = gateway.events("/v1/events", &[]).next().expect("hello");
    assert_eq!(ids(&hello.json()), listed);
}

#[test]
fn a_list_that_cannot_be_read_is_a_problem_and_not_an_empty_list() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["hang"]);
    let (sessions, away) = (lab.home().join("sessions"), lab.home().join("away"));
    std::fs::rename(&sessions, &away).expect("our own directory");
    std::fs::write(&sessions, "in the way").expect("our own directory");
    let mut list = gateway.events("/v1/events", &[]);
    let (first, then) = (list.next(), list.next());
    std::fs::remove_file(&sessions).expect("our own file");
    std::fs::rename(&away, &sessions).expect("our own directory");
    let first = first.expect("something");
    assert_eq!((first.event.as_str(), &first.json()["code"]), ("problem", &Value::from("unreachable")));
    assert_eq!(then, None, "a client that comes back is told anew");
    let hello = gateway.events("/v1/events", &[]).next().expect("hello");
    assert_eq!((hello.event.as_str(), &hello.json()["sessions"][0]["id"]), ("hello", &Value::from(id)));
}

#[test]
fn the_list_follows_the_sessions_to_another_directory_of_that_name() {
    let lab = lab();
    let id = lab.start(&["exit:0"]);
    lab.berth(["wait", &id, "--for", "exit"]);
    let gateway = lab.serve();
    let mut list = gateway.events("/v1/events", &[]);
    assert_eq!(list.next().expect("hello").event, "hello");
    let (sessions, copy) = (lab.home().join("sessions"), lab.home().join("copy"));
    let copied = std::process::Command::new("cp").arg("-a").args([&sessions, &copy]).status();
    assert!(copied.expect("cp").success());
    std::fs::rename(&sessions, lab.dir().join("before")).expect("our own directory");
    std::fs::rename(&copy, &sessions).expect("our own directory");
    lab.ok(["tag", &id, "mine"]);
    list.wait_for("the events of the list", |event| {
        event.event == "session" && event.json()["id"] == id.as_str() && event.json()["tags"][0] == "mine"
    });
}
