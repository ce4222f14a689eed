//! The official schema, closed: an object may hold only the fields that its definition names.
//!
//! A definition is often made of others (`allOf`, `oneOf`), so none can be closed by itself. What
//! is closed is each *place* where a value stands: a property or an item. There
//! `unevaluatedProperties` sees all fields that any part of the definition has named. Places that
//! take anything (`rawInput`, `_meta`, an error's `data`) name no fields and stay open.

use serde_json::{Map, Value};

/// Closes every place inside the definitions of `schema`.
pub(super) fn close(mut schema: Value) -> Value {
    if let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        definitions.values_mut().for_each(close_places_in);
    }
    schema
}

fn close_places_in(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else {
        return;
    };
    for (keyword, value) in keywords.iter_mut() {
        match keyword.as_str() {
            "properties" => children(value).for_each(close_place),
            "items" | "additionalProperties" => close_place(value),
            // These describe the same value as the schema they stand in, not a new place.
            "allOf" | "anyOf" | "oneOf" => children(value).for_each(close_places_in),
            _ => {}
        }
    }
}

fn close_place(place: &mut Value) {
    close_places_in(place);
    if let Some(keywords) = place.as_object_mut()
        && names_fields(keywords)
    {
        keywords.insert("unevaluatedProperties".into(), Value::Bool(false));
    }
}

fn names_fields(keywords: &Map<String, Value>) -> bool {
    ["$ref", "properties", "allOf", "anyOf", "oneOf"]
        .iter()
        .any(|keyword| keywords.contains_key(*keyword))
}

fn children(value: &mut Value) -> Box<dyn Iterator<Item = &mut Value> + '_> {
    match value {
        Value::Object(map) => Box::new(map.values_mut()),
        Value::Array(list) => Box::new(list.iter_mut()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Box::new(std::iter::empty())
        }
    }
}
