//! Schemas of bodies. Request and response schemas are separate, because a field that is optional in a request may be
//! in every response.

use std::collections::BTreeSet;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::http_problem::ProblemBody;
use crate::routes::SchemaOf;

/// Places of the schemas. Request schemas have one of their own until all names are known.
const GIVEN: &str = "#/components/schemas/";
const TAKEN: &str = "#/components/taken/";

pub(crate) struct SchemaSets {
    given: SchemaGenerator,
    taken: SchemaGenerator,
}

impl Default for SchemaSets {
    fn default() -> Self {
        let settings = |place: &str| {
            let mut settings = SchemaSettings::draft2020_12();
            settings.definitions_path = format!("/{}", place.trim_matches(['#', '/'])).into();
            settings
        };
        Self {
            given: settings(GIVEN).for_serialize().into_generator(),
            taken: settings(TAKEN).for_deserialize().into_generator(),
        }
    }
}

impl SchemaSets {
    /// The schema of a response body.
    pub(crate) fn given(&mut self, schema: SchemaOf) -> Value {
        tidied(schema(&mut self.given).to_value())
    }

    /// The schema of a problem.
    pub(crate) fn problem(&mut self) -> Value {
        tidied(self.given.subschema_for::<ProblemBody>().to_value())
    }

    /// The schema of a request body. Its references are right after [`Self::name`].
    pub(crate) fn taken(&mut self, schema: SchemaOf) -> Value {
        tidied(schema(&mut self.taken).to_value())
    }

    /// True if a request must have a body.
    pub(crate) fn is_required(&self, schema: &Value) -> bool {
        let name = schema["$ref"].as_str().and_then(|name| name.strip_prefix(TAKEN));
        let whole = name.and_then(|name| self.taken.definitions().get(name)).unwrap_or(schema);
        whole["type"] != "object" || whole["required"].as_array().is_some_and(|required| !required.is_empty())
    }

    /// Query parameters: one for each property of the schema.
    pub(crate) fn query(schema: SchemaOf) -> Vec<Value> {
        let mut settings = SchemaSettings::draft2020_12().for_deserialize();
        settings.inline_subschemas = true;
        let whole = tidied(schema(&mut settings.into_generator()).to_value());
        let required: Vec<&str> =
            whole["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = whole["properties"].as_object().cloned().unwrap_or_default();
        let parameter = |(name, mut schema): (String, Value)| {
            let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            let schema = without_null(schema);
            let mut parameter = json!({
                "name": name,
                "in": "query",
                "required": required.contains(&name.as_str()),
                "description": about.unwrap_or_default(),
                "schema": schema,
            });
            if schema["type"] == "array" {
                // Its values are separated by commas.
                parameter["explode"] = false.into();
            }
            parameter
        };
        properties.into_iter().map(parameter).collect()
    }

    /// Adds the schemas to the description. A type whose request and response schemas differ has two, and the request
    /// schema is named `…Input`.
    pub(crate) fn name(self, description: &mut Value) {
        let given: Map<String, Value> = tidied_all(self.given.definitions());
        let taken: Map<String, Value> = tidied_all(self.taken.definitions());
        let mut differing: BTreeSet<String> = BTreeSet::new();
        loop {
            let differs = |name: &String, schema: &Value| {
                let mut same = schema.clone();
                name_all(&mut same, &differing);
                given.get(name).is_some_and(|given| *given != same)
            };
            let more: BTreeSet<String> = taken
                .iter()
                .filter(|(name, schema)| differs(name, schema))
                .map(|(name, _)| name.clone())
                .collect();
            if more.is_subset(&differing) {
                break;
            }
            differing.extend(more);
        }
        let mut all = given;
        for (name, mut schema) in taken {
            name_all(&mut schema, &differing);
            all.insert(called(&name, &differing), schema);
        }
        name_all(description, &differing);
        description["components"]["schemas"] = all.into();
    }
}

fn called(name: &str, differing: &BTreeSet<String>) -> String {
    if differing.contains(name) { format!("{name}Input") } else { name.to_owned() }
}

/// Changes references to request schemas so that they name the final place.
fn name_all(value: &mut Value, differing: &BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let name = value.as_str().filter(|_| key == "$ref").and_then(|name| name.strip_prefix(TAKEN));
                match name {
                    Some(name) => *value = format!("{GIVEN}{}", called(name, differing)).into(),
                    None => name_all(value, differing),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| name_all(value, differing)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn tidied_all(definitions: &Map<String, Value>) -> Map<String, Value> {
    definitions.iter().map(|(name, schema)| (name.clone(), tidied(schema.clone()))).collect()
}

/// Adds the maximum that the type of a number implies, and uses format names that other tools know.
fn tidied(mut schema: Value) -> Value {
    any_as_object(&mut schema);
    tidy(&mut schema);
    schema
}

/// `true` and `{}` are the same schema, which allows anything. Some tools do not know the first.
fn any_as_object(schema: &mut Value) {
    if *schema == true {
        *schema = json!({});
    }
}

fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.get_mut("items").into_iter().for_each(any_as_object);
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                properties.values_mut().for_each(any_as_object);
            }
            one_of_words(object);
            spread(object);
            let most: Option<Value> = match object.get("format").and_then(Value::as_str) {
                Some("uint" | "uint64") => {
                    object.insert("format".to_owned(), "uint64".into());
                    Some(u64::MAX.into())
                }
                Some("uint32") => Some(u32::MAX.into()),
                Some("int64" | "int32" | "uint16" | "uint8") | Some(_) | None => None,
            };
            if let Some(most) = most {
                object.entry("maximum").or_insert(most);
            }
            object.values_mut().for_each(tidy);
        }
        Value::Array(values) => values.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Turns a choice of constants into one `enum`, with the meaning of each value in the description: all tools understand
/// that.
fn one_of_words(schema: &mut Map<String, Value>) {
    let Some(Value::Array(ways)) = schema.get("oneOf") else { return };
    let (mut words, mut told) = (Vec::new(), Vec::new());
    for way in ways {
        let of_way = match (&way["const"], &way["enum"]) {
            (Value::String(word), _) => vec![json!(word)],
            (_, Value::Array(words)) if words.iter().all(Value::is_string) => words.clone(),
            (_, _) => return,
        };
        if let (Some(about), [word]) = (way["description"].as_str(), of_way.as_slice()) {
            told.push(format!("- `{}`: {about}", word.as_str().unwrap_or_default()));
        }
        words.extend(of_way);
    }
    let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let about = if told.is_empty() { about.to_owned() } else { format!("{about}\n\n{}", told.join("\n")) };
    schema.remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), words.into());
    schema.insert("description".to_owned(), about.trim().into());
}

/// Copies the properties that all variants share into each variant: tools that make a type of each variant lose them
/// otherwise.
fn spread(schema: &mut Map<String, Value>) {
    let is_whole = |way: &Value| way["type"] == "object" && way["properties"].is_object();
    let Some(Value::Array(ways)) = schema.get("oneOf") else { return };
    if !schema.contains_key("properties") || !ways.iter().all(is_whole) {
        return;
    }
    let shared = schema.remove("properties").unwrap_or_default();
    let required = schema.remove("required").unwrap_or_default();
    schema.remove("type");
    for way in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
        for (name, field) in shared.as_object().into_iter().flatten() {
            way["properties"][name] = field.clone();
        }
        let mut all = required.as_array().cloned().unwrap_or_default();
        all.extend(way["required"].as_array().cloned().unwrap_or_default());
        way["required"] = all.into();
    }
}

/// Removes `null` from the type of a parameter: a query cannot express it.
fn without_null(mut schema: Value) -> Value {
    let Some(object) = schema.as_object_mut() else { return schema };
    if let Some(Value::Array(kinds)) = object.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [one] = kinds.as_slice() {
            let one = one.clone();
            object.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(kinds)) = object.get_mut("enum") {
        kinds.retain(|kind| !kind.is_null());
    }
    if let Some(Value::Array(ways)) = object.get_mut("anyOf") {
        ways.retain(|way| way["type"] != "null");
        if let [one] = ways.as_slice() {
            return one.clone();
        }
    }
    schema
}
