//! Tests of the registry: parser, explanations and docs agree; and each kind of key accepts its values, from the file
//! and from the environment.

use std::cell::RefCell;
use std::time::Duration;

use super::super::registry::{DefaultValue, KeySpec, TABLES, TableSpec, ValueKind};
use super::super::table_reader::{ConfigDocument, ConfigValue};
use berth_api::ProblemCode;

use super::*;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md");

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FruitChoice {
    Apple,
    Pear,
}

const FRUIT: [FruitChoice; 2] = [FruitChoice::Apple, FruitChoice::Pear];

fn name(fruit: FruitChoice) -> &'static str {
    match fruit {
        FruitChoice::Apple => "apple",
        FruitChoice::Pear => "pear",
    }
}

const BASKET: TableSpec = TableSpec {
    path: "basket",
    about: "One of each kind.",
    keys: &[
        KeySpec::new("label", ValueKind::Text, "A text").secret(),
        KeySpec::new("best", ValueKind::Choice(&["apple", "pear"]), "One").default("pear"),
        KeySpec::new("some", ValueKind::Choices(&["apple", "pear"]), "Some").default("apple,pear"),
        KeySpec::new("ripe", ValueKind::Switch, "Whether").default("true"),
        KeySpec::new("count", ValueKind::Count(1, 12), "How many").default("3"),
        KeySpec::new("wait", ValueKind::Time, "How long"),
        KeySpec::new("keep", ValueKind::TimeOrNever, "How long, or for ever").default("never"),
        KeySpec::new("peel", ValueKind::Words, "How"),
    ],
};
const CRATE: TableSpec = TableSpec {
    path: "basket.crates.NAME",
    about: "Any number of them.",
    keys: &[KeySpec::new("count", ValueKind::Count(0, u64::MAX), "How many").otherwise("empty")],
};

/// Every value of a basket.
#[derive(Debug)]
struct BasketSettings {
    label: Option<ConfigValue<String>>,
    best: Option<FruitChoice>,
    some: Option<Vec<FruitChoice>>,
    ripe: Option<bool>,
    count: Option<u64>,
    wait: Option<Duration>,
    keep: Option<Option<Duration>>,
    peel: Option<ConfigValue<Vec<String>>>,
    crates: Vec<(String, Option<u64>)>,
    settings: Vec<ConfigSetting>,
}

fn basket(text: &str, variables: &[(&str, &str)]) -> Result<BasketSettings, Problem> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let document = ConfigDocument::new(Path::new("f"), text.as_bytes(), &[&BASKET, &CRATE], &variable)?;
    let mut top = document.keys()?;
    let mut keys = top.table("basket")?;
    let mut read = BasketSettings {
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
    assert_eq!((basket.best, basket.ripe, basket.count), (Some(FruitChoice::Pear), Some(true), Some(3)));
    assert_eq!((basket.some, basket.keep), (Some(FRUIT.to_vec()), Some(None)));
}

#[test]
fn a_variable_counts_over_the_file_and_both_over_the_default() {
    let text = "[basket]\nlabel = \"mine\"\nbest = \"apple\"\nsome = []\nripe = false\ncount = 0b111\n\
                wait = \"2m\"\nkeep = \"1h\"\npeel = [\"a\"]\n[basket.crates.blue]\ncount = 9\n";
    let file = basket(text, &[("BERTH_BASKET_COUNT", "")]).expect("every kind");
    assert_eq!((file.best, file.ripe, file.count), (Some(FruitChoice::Apple), Some(false), Some(7)));
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
        // An array has no variable.
        ("BERTH_BASKET_PEEL", "b"),
    ];
    let both = basket(text, &variables).expect("every variable");
    assert_eq!((both.best, both.ripe, both.count), (Some(FruitChoice::Pear), Some(true), Some(12)));
    assert_eq!(
        (both.some, both.wait),
        (Some(vec![FruitChoice::Pear, FruitChoice::Apple]), Some(Duration::from_millis(500)))
    );
    assert_eq!(both.keep, Some(None));
    assert_eq!(both.label.map(|found| found.value).as_deref(), Some("yours"));
    assert_eq!(both.peel.map(|found| found.value), Some(vec!["a".to_owned()]));
}

#[test]
fn the_origin_of_each_value_is_known_and_a_secret_is_not_shown() {
    let basket =
        basket("[basket]\nlabel = \"s3cret\"\n  count = 7\n", &[("BERTH_BASKET_WAIT", "1s")]).expect("fine");
    let told = |key: &str| {
        let setting = basket.settings.iter().find(|setting| setting.key.name == key).expect(key);
        (setting.value.clone(), setting.origin.clone())
    };
    let at = |line, column| SettingOrigin::File(ConfigPosition { line, column });
    assert_eq!(told("label"), (Some(serde_json::json!("***")), at(2, 9)));
    assert_eq!(told("count"), (Some(serde_json::json!(7)), at(3, 11)));
    assert_eq!(told("best"), (Some(serde_json::json!("pear")), SettingOrigin::Default));
    assert_eq!(told("peel"), (None, SettingOrigin::Default));
    let variable = SettingOrigin::Environment("BERTH_BASKET_WAIT".to_owned());
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
    // A bad value in the file is refused even if the variable overrides it.
    let hidden = no_basket("[basket]\ncount = 99\n", &[("BERTH_BASKET_COUNT", "1")]);
    assert!(hidden.starts_with("f:2:9: "), "{hidden}");
}

#[test]
fn every_key_that_is_explained_is_read_and_the_other_way_round() {
    // The example contains every key of the registry: a registered key that is not read is refused as unknown, and
    // reading a key that is not registered panics.
    let uncommented: String = explain::example_config()
        .lines()
        .filter_map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with([' ', '#'])))
        .map(|line| format!("{line}\n"))
        .collect();
    let config = parsed(&uncommented).unwrap_or_else(|problem| panic!("{problem}\n{uncommented}"));
    for table in TABLES {
        for key in table.keys {
            let is_set = |setting: &ConfigSetting| {
                setting.key.name == key.name && matches!(setting.origin, SettingOrigin::File(_))
            };
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
    // The example as printed, all of it commented out, sets nothing.
    let config = parsed(&explain::example_config()).expect("comments");
    assert!(config.settings.iter().all(|setting| setting.origin == SettingOrigin::Default));
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
    // `load_or_default` relies on valid defaults.
    let config = Config::parse(None, None, &|_| None).expect("defaults");
    for setting in &config.settings {
        match setting.key.otherwise {
            DefaultValue::Value(_) => assert!(setting.value.is_some()),
            DefaultValue::Unset(words) => assert!(setting.value.is_none() && !words.is_empty()),
        }
    }
}

#[test]
fn a_key_is_explained_by_its_path_by_its_name_and_by_its_table() {
    let all = explain::explain_keys(None).expect("all");
    for table in TABLES {
        assert!(all.contains(&format!("[{}]\n", table.path)), "{all}");
    }
    let color = explain::explain_keys(Some("ui.color")).expect("a key");
    assert!(color.starts_with("[ui]\n") && color.contains("variable  BERTH_UI_COLOR\n"), "{color}");
    assert_eq!(explain::explain_keys(Some("color")).expect("its name"), color);
    let command = explain::explain_keys(Some("agents.claude.command")).expect("a name for NAME");
    assert!(command.contains("\n  command\n") && !command.contains("\n  driver\n"), "{command}");
    assert!(explain::explain_keys(Some("agents")).expect("a table").contains("\n  driver\n"));
    let problem = explain::explain_keys(Some("ui.colour")).expect_err("no such key");
    assert_eq!(
        (problem.code, problem.what.as_str()),
        (ProblemCode::NotFound, "there is no key `ui.colour`; did you mean `ui.color`?")
    );
}

/// With UPDATE_DOCS=1 the test updates docs/config.md.
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
        wanted.replace_range(from..to, &explain::keys_as_markdown(table));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(DOCS, &wanted).expect("docs/config.md can be written");
    } else {
        assert_eq!(docs, wanted, "UPDATE_DOCS=1 writes it");
    }
}
