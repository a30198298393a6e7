//! The registry: what is read, what is explained and what is in the docs are the same; and what the kinds of
//! keys take, from the file and from the environment.

use std::cell::RefCell;
use std::time::Duration;

use super::super::keys::{Document, Found};
use super::super::registry::{Key, Kind, Otherwise, TABLES, Table};
use super::*;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md");

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fruit {
    Apple,
    Pear,
}

const FRUIT: [Fruit; 2] = [Fruit::Apple, Fruit::Pear];

fn name(fruit: Fruit) -> &'static str {
    match fruit {
        Fruit::Apple => "apple",
        Fruit::Pear => "pear",
    }
}

const BASKET: Table = Table {
    path: "basket",
    about: "One of each kind.",
    keys: &[
        Key::new("label", Kind::Text, "A text").secret(),
        Key::new("best", Kind::Choice(&["apple", "pear"]), "One").default("pear"),
        Key::new("some", Kind::Choices(&["apple", "pear"]), "Some").default("apple,pear"),
        Key::new("ripe", Kind::Switch, "Whether").default("true"),
        Key::new("count", Kind::Count(1, 12), "How many").default("3"),
        Key::new("wait", Kind::Time, "How long"),
        Key::new("keep", Kind::TimeOrNever, "How long, or for ever").default("never"),
        Key::new("peel", Kind::Words, "How"),
    ],
};
const CRATE: Table = Table {
    path: "basket.crates.NAME",
    about: "Any number of them.",
    keys: &[Key::new("count", Kind::Count(0, u64::MAX), "How many").otherwise("empty")],
};

/// All of a basket.
#[derive(Debug)]
struct Basket {
    label: Option<Found<String>>,
    best: Option<Fruit>,
    some: Option<Vec<Fruit>>,
    ripe: Option<bool>,
    count: Option<u64>,
    wait: Option<Duration>,
    keep: Option<Option<Duration>>,
    peel: Option<Found<Vec<String>>>,
    crates: Vec<(String, Option<u64>)>,
    settings: Vec<Setting>,
}

fn basket(text: &str, variables: &[(&str, &str)]) -> Result<Basket, Problem> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let document = Document::new(Path::new("f"), text.as_bytes(), &[&BASKET, &CRATE], &variable)?;
    let mut top = document.keys()?;
    let mut keys = top.table("basket")?;
    let mut read = Basket {
        label: keys.text("label")?,
        best: keys.choice("best", &FRUIT, name)?,
        some: keys.choices("some", &FRUIT, name)?,
        ripe: keys.switch("ripe")?,
        count: keys.count("count")?,
        wait: keys.time("wait")?,
        keep: keys.time_or_never("keep")?,
        peel: keys.words("peel")?,
        crates: Vec::new(),
        settings: Vec::new(),
    };
    for (name, mut keys) in keys.tables("crates")? {
        read.crates.push((name, keys.count("count")?));
        keys.finish()?;
    }
    keys.finish()?;
    top.finish()?;
    read.settings = document.settings();
    Ok(read)
}

fn no_basket(text: &str, variables: &[(&str, &str)]) -> String {
    basket(text, variables).map(|basket| format!("{basket:?}")).expect_err(text).what
}

#[test]
fn without_a_file_the_defaults_hold() {
    let basket = basket("", &[]).expect("nothing is wrong with nothing");
    assert!(basket.label.is_none() && basket.wait.is_none() && basket.peel.is_none());
    assert_eq!((basket.best, basket.ripe, basket.count), (Some(Fruit::Pear), Some(true), Some(3)));
    assert_eq!((basket.some, basket.keep), (Some(FRUIT.to_vec()), Some(None)));
}

#[test]
fn a_variable_counts_over_the_file_and_both_over_the_default() {
    let text = "[basket]\nlabel = \"mine\"\nbest = \"apple\"\nsome = []\nripe = false\ncount = 0b111\n\
                wait = \"2m\"\nkeep = \"1h\"\npeel = [\"a\"]\n[basket.crates.blue]\ncount = 9\n";
    let file = basket(text, &[("BERTH_BASKET_COUNT", "")]).expect("every kind");
    assert_eq!((file.best, file.ripe, file.count), (Some(Fruit::Apple), Some(false), Some(7)));
    assert_eq!((file.some, file.wait), (Some(vec![]), Some(Duration::from_secs(120))));
    assert_eq!(file.keep, Some(Some(Duration::from_secs(3600))));
    assert_eq!(file.crates, [("blue".to_owned(), Some(9))]);
    let variables = [
        ("BERTH_BASKET_LABEL", "yours"),
        ("BERTH_BASKET_BEST", "pear"),
        ("BERTH_BASKET_SOME", "pear, apple"),
        ("BERTH_BASKET_RIPE", "yes"),
        ("BERTH_BASKET_COUNT", "12"),
        ("BERTH_BASKET_WAIT", "500ms"),
        ("BERTH_BASKET_KEEP", "never"),
        // An array has none.
        ("BERTH_BASKET_PEEL", "b"),
    ];
    let both = basket(text, &variables).expect("every variable");
    assert_eq!((both.best, both.ripe, both.count), (Some(Fruit::Pear), Some(true), Some(12)));
    assert_eq!(
        (both.some, both.wait),
        (Some(vec![Fruit::Pear, Fruit::Apple]), Some(Duration::from_millis(500)))
    );
    assert_eq!(both.keep, Some(None));
    assert_eq!(both.label.map(|found| found.value).as_deref(), Some("yours"));
    assert_eq!(both.peel.map(|found| found.value), Some(vec!["a".to_owned()]));
}

#[test]
fn who_says_so_is_known_and_a_secret_is_not_shown() {
    let basket =
        basket("[basket]\nlabel = \"s3cret\"\n  count = 7\n", &[("BERTH_BASKET_WAIT", "1s")]).expect("fine");
    let told = |key: &str| {
        let setting = basket.settings.iter().find(|setting| setting.key.name == key).expect(key);
        (setting.value.clone(), setting.origin.clone())
    };
    let at = |line, column| Origin::File(Spot { line, column });
    assert_eq!(told("label"), (Some(serde_json::json!("***")), at(2, 9)));
    assert_eq!(told("count"), (Some(serde_json::json!(7)), at(3, 11)));
    assert_eq!(told("best"), (Some(serde_json::json!("pear")), Origin::Default));
    assert_eq!(told("peel"), (None, Origin::Default));
    let variable = Origin::Environment("BERTH_BASKET_WAIT".to_owned());
    assert_eq!(told("wait"), (Some(serde_json::json!("1s")), variable));
    assert!(!format!("{:?}", basket.settings).contains("s3cret"));
}

#[test]
fn a_bad_value_is_refused_where_it_is_and_never_repeated_if_it_may_be_a_secret() {
    for (text, what) in [
        ("[basket]\nbest = \"aple\"\n", "f:2:8: `best` in [basket] cannot be `aple`; did you mean `apple`?"),
        ("[basket]\nsome = [\"apple\",\n  \"plum\"]\n", "f:2:8: `some` in [basket] cannot be `plum`"),
        (
            "[basket]\nripe = \"yes\"\n",
            "f:2:8: `ripe` in [basket] is of type string; it must be true or false",
        ),
        ("[basket]\ncount = 13\n", "f:2:9: `count` in [basket] must be a number from 1 to 12"),
        ("[basket]\ncount = -1\n", "f:2:9: `count` in [basket] must be a number from 1 to 12"),
        (
            "[basket]\nwait = 5\n",
            "f:2:8: `wait` in [basket] is of type integer; it must be a string, in quotes",
        ),
        (
            "[basket]\nlabel = 7\n",
            "f:2:9: `label` in [basket] is of type integer; it must be a string, in quotes",
        ),
        ("basket = { best = \"ä\" }\n", "f:1:19: `best` in [basket] cannot be `ä`"),
        ("basket = { label = \"ä\", x = 7 }\n", "f:1:25: [basket] has no key `x`"),
        (
            "basket = 7\n",
            "f:1:1: `basket` in the file is of type integer; it must be a table, as in [basket]",
        ),
        (
            "[basket.crates]\nblue = 7\n",
            "f:2:1: `blue` in [basket.crates] must be a table of its own, as in [basket.crates.blue]",
        ),
        (
            "[basket.crates.blue]\ncuont = 7\n",
            "f:2:1: [basket.crates.blue] has no key `cuont`; did you mean `count`?",
        ),
    ] {
        assert_eq!(no_basket(text, &[]), what, "{text}");
    }
    let time = no_basket("[basket]\n\twait = \"soon\"\n", &[]);
    assert!(time.starts_with("f:2:9: `wait` in [basket] is not a valid time: "), "{time}");
    for (variable, value, what) in [
        (
            "BERTH_BASKET_BEST",
            "aple",
            "the variable BERTH_BASKET_BEST cannot be `aple`; did you mean `apple`?",
        ),
        ("BERTH_BASKET_RIPE", "ja", "the variable BERTH_BASKET_RIPE must be true or false"),
        ("BERTH_BASKET_COUNT", "many", "the variable BERTH_BASKET_COUNT must be a number from 1 to 12"),
    ] {
        assert_eq!(no_basket("", &[(variable, value)]), what);
    }
    // What the variable hides is refused all the same.
    let hidden = no_basket("[basket]\ncount = 99\n", &[("BERTH_BASKET_COUNT", "1")]);
    assert!(hidden.starts_with("f:2:9: "), "{hidden}");
}

#[test]
fn every_key_that_is_explained_is_read_and_the_other_way_round() {
    // The example has every key of the registry in it: one that nobody reads is refused as unknown, and
    // reading one that is not in the registry is a panic.
    let uncommented: String = explain::example()
        .lines()
        .filter_map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with([' ', '#'])))
        .map(|line| format!("{line}\n"))
        .collect();
    let config = parsed(&uncommented).unwrap_or_else(|problem| panic!("{problem}\n{uncommented}"));
    for table in TABLES {
        for key in table.keys {
            let is_set =
                |setting: &Setting| setting.key.name == key.name && matches!(setting.origin, Origin::File(_));
            assert!(
                config.settings.iter().any(is_set),
                "{} of [{}] is not in the example",
                key.name,
                table.path
            );
            assert!(
                !key.about.is_empty() && !key.about.ends_with('.'),
                "{} is not explained in a line",
                key.name
            );
        }
    }
    // And as it is printed it says nothing.
    let config = parsed(&explain::example()).expect("comments");
    assert!(config.settings.iter().all(|setting| setting.origin == Origin::Default));
}

#[test]
fn every_single_value_outside_of_named_tables_has_a_variable_of_its_own_that_is_read() {
    let asked = RefCell::new(Vec::new());
    let ask = |name: &str| {
        asked.borrow_mut().push(name.to_owned());
        None
    };
    Config::parse(None, None, &ask).expect("defaults");
    let mut variables: Vec<String> =
        TABLES.iter().flat_map(|table| table.keys.iter().filter_map(|key| table.variable(key))).collect();
    let mut asked = asked.into_inner();
    asked.sort();
    variables.sort();
    assert_eq!(asked, variables);
    let count = variables.len();
    variables.dedup();
    assert_eq!(count, variables.len(), "two keys have one variable");
    let ours = ["BERTH_HOME", "BERTH_CONFIG", "BERTH_SESSION", "BERTH_RUN", "BERTH_HELPER", "BERTH_LOG"];
    assert!(variables.iter().all(|name| !ours.contains(&name.as_str())));
}

#[test]
fn a_default_is_a_value_that_is_understood() {
    // Which is what makes `load_or_default` safe.
    let config = Config::parse(None, None, &|_| None).expect("defaults");
    for setting in &config.settings {
        match setting.key.otherwise {
            Otherwise::Value(_) => assert!(setting.value.is_some()),
            Otherwise::Unset(words) => assert!(setting.value.is_none() && !words.is_empty()),
        }
    }
}

#[test]
fn a_key_is_explained_by_its_path_by_its_name_and_by_its_table() {
    let all = explain::text(None).expect("all");
    for table in TABLES {
        assert!(all.contains(&format!("[{}]\n", table.path)), "{all}");
    }
    let color = explain::text(Some("ui.color")).expect("a key");
    assert!(color.starts_with("[ui]\n") && color.contains("variable  BERTH_UI_COLOR\n"), "{color}");
    assert_eq!(explain::text(Some("color")).expect("its name"), color);
    let command = explain::text(Some("agents.claude.command")).expect("a name for NAME");
    assert!(command.contains("\n  command\n") && !command.contains("\n  driver\n"), "{command}");
    assert!(explain::text(Some("agents")).expect("a table").contains("\n  driver\n"));
    let problem = explain::text(Some("ui.colour")).expect_err("no such key");
    assert_eq!(
        (problem.code, problem.what.as_str()),
        (Code::NotFound, "there is no key `ui.colour`; did you mean `ui.color`?")
    );
}

/// Run with UPDATE_DOCS=1 it writes what is missing.
#[test]
fn the_docs_say_what_the_registry_says() {
    let docs = std::fs::read_to_string(DOCS).expect("docs/config.md");
    let mut wanted = docs.clone();
    for table in TABLES {
        let (begin, end) = (format!("<!-- [{}] -->\n", table.path), "<!-- end -->\n");
        let heading = format!("## `[{}]`\n", table.path);
        if !wanted.contains(&begin) {
            wanted.push_str(&format!("\n{heading}\n{begin}{end}"));
        }
        assert!(wanted.contains(&heading), "no heading {heading} in docs/config.md");
        let from = wanted.find(&begin).expect("just looked for") + begin.len();
        let to = from + wanted[from..].find(end).expect("a marked part has an end");
        wanted.replace_range(from..to, &explain::markdown(table));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(DOCS, &wanted).expect("docs/config.md can be written");
    } else {
        assert_eq!(docs, wanted, "UPDATE_DOCS=1 writes it");
    }
}
