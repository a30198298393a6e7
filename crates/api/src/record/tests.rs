use std::collections::BTreeSet;

use super::Event;

/// Kinds of events in their JSON schema.
fn kinds() -> BTreeSet<String> {
    let schema = schemars::schema_for!(Event).to_value();
    let variants = schema["oneOf"].as_array().cloned().unwrap_or_default();
    let names = variants.iter().filter_map(|variant| variant["properties"]["event"]["const"].as_str());
    names.map(str::to_owned).collect()
}

/// Names in the first cells of the tables with the head `event`.
fn kinds_of_page(page: &str) -> BTreeSet<String> {
    let tables =
        page.split("| `event` | ").skip(1).map(|table| table.split("\n\n").next().unwrap_or_default());
    let rows = tables.flat_map(|table| table.lines().skip(2));
    let cells = rows.filter_map(|row| row.strip_prefix("| ")?.split(" | ").next());
    cells.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_page_of_events_lists_every_kind() {
    assert!(kinds().len() > 40, "{:?}", kinds());
    assert_eq!(kinds(), kinds_of_page(include_str!("../../../../docs/events.md")));
}
