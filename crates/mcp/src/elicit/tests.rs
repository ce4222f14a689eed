//! Forms of servers, as people answer them.

use domain::CallId;
use rmcp::model::{ElicitRequestParams, ElicitationAction};
use serde_json::{Map, Value, json};
use tools::asks::PersonAnswer;

use super::Form;

fn form(properties: Value, required: Value) -> Form {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let params = json!({"mode": "form", "message": "Tell me\u{1b}[2J", "requestedSchema": schema});
    let params: ElicitRequestParams = serde_json::from_value(params).unwrap();
    Form::read(params).unwrap()
}

fn filled(content: Value) -> PersonAnswer {
    PersonAnswer::Filled(content.as_object().cloned().unwrap_or_else(Map::new))
}

fn told(form: &Form, answer: PersonAnswer) -> Option<Value> {
    let told = form.told(answer);
    (told.action == ElicitationAction::Accept).then(|| told.content.unwrap_or_default())
}

#[test]
fn what_is_left_out_gets_the_value_that_the_form_names() {
    let form = form(
        json!({
            "name": {"type": "string", "default": "Ann"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["on", "off"], "default": "on"},
            "verified": {"type": "boolean", "default": true},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]},
        }),
        json!([]),
    );
    let all = json!({"name": "Ann", "age": 30, "score": 95.5, "status": "on", "verified": true,
        "tags": ["a"]});
    assert_eq!(told(&form, filled(json!({}))), Some(all));
    let some = told(&form, filled(json!({"name": "Bo", "age": null, "more": 1}))).unwrap();
    assert_eq!(
        (&some["name"], &some["verified"]),
        (&json!("Bo"), &json!(true))
    );
    assert_eq!(some.get("more"), None, "nobody asked for that");
}

#[test]
fn an_answer_that_does_not_fit_is_none() {
    let form = form(
        json!({"age": {"type": "integer", "minimum": 0}, "name": {"type": "string"}}),
        json!(["age"]),
    );
    for wrong in [json!({}), json!({"age": "ten"}), json!({"age": -1})] {
        assert_eq!(told(&form, filled(wrong.clone())), None, "{wrong}");
    }
    assert_eq!(
        told(&form, filled(json!({"age": 7}))),
        Some(json!({"age": 7}))
    );
    for nothing in [PersonAnswer::Declined, PersonAnswer::Cancelled] {
        assert_eq!(told(&form, nothing), None);
    }
}

#[test]
fn a_form_of_one_choice_can_be_answered_by_choosing() {
    let options = |form: &Form| form.question("s", CallId::random()).options;
    let chosen = |form: &Form, label: &str| told(form, PersonAnswer::Chosen(label.to_owned()));
    let sure = form(json!({"sure": {"type": "boolean"}}), json!(["sure"]));
    assert_eq!(options(&sure), ["Yes", "No"]);
    assert_eq!(chosen(&sure, "No"), Some(json!({"sure": false})));
    assert_eq!(chosen(&sure, "Perhaps"), None);
    let titled = json!([{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]);
    let colour = form(
        json!({"colour": {"type": "string", "oneOf": titled}}),
        json!(["colour"]),
    );
    assert_eq!(options(&colour), ["Red", "Blue"]);
    assert_eq!(chosen(&colour, "Blue"), Some(json!({"colour": "b"})));
    let older = json!({"type": "string", "enum": ["c", "d"], "enumNames": ["Cat", "Dog"]});
    let pet = form(json!({"pet": older}), json!(["pet"]));
    let shown = pet.question("s", CallId::random()).form.unwrap();
    assert_eq!(
        shown["properties"]["pet"]["oneOf"][1],
        json!({"const": "d", "title": "Dog"}),
        "as clients know it"
    );
    assert_eq!(chosen(&pet, "Dog"), Some(json!({"pet": "d"})));
    let words = form(json!({"name": {"type": "string"}}), json!(["name"]));
    assert!(
        options(&words).is_empty(),
        "this needs words, so it can only be declined"
    );
    let nothing = form(json!({}), json!([]));
    assert_eq!(chosen(&nothing, "Accept"), Some(json!({})));
}

#[test]
fn words_of_a_server_do_not_drive_a_terminal() {
    let form = form(json!({}), json!([]));
    let asked = form.question("s\u{7}\n", CallId::random());
    assert_eq!(
        (asked.message.as_str(), asked.server.as_str()),
        ("Tell me", "s")
    );
}
