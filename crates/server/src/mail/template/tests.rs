use serde_json::json;

use super::*;

fn props(json: Json) -> Map<String, Json> {
    json.as_object().unwrap().clone()
}

fn html(source: &str, values: Json) -> Result<String, Fault> {
    let source = TemplateSource { html: Some(source), ..TemplateSource::default() };
    render(&source, &props(values)).map(|rendered| rendered.html.unwrap())
}

#[test]
fn values_are_escaped_in_html_only() {
    let source = "{{ name }}";
    let source = TemplateSource { subject: Some(source), html: Some(source), text: Some(source) };
    let rendered = render(&source, &props(json!({"name": "<b>\"Tom\" & 'Ann'</b>"}))).unwrap();
    assert_eq!(
        rendered.html.as_deref(),
        Some("&lt;b&gt;&quot;Tom&quot; &amp; &#x27;Ann&#x27;&lt;&#x2f;b&gt;")
    );
    assert_eq!(rendered.text.as_deref(), Some("<b>\"Tom\" & 'Ann'</b>"));
    assert_eq!(rendered.subject, rendered.text);
}

#[test]
fn parts_that_a_template_does_not_have_are_not_made() {
    let source = TemplateSource { text: Some("Hi."), ..TemplateSource::default() };
    let rendered = render(&source, &Map::new()).unwrap();
    assert_eq!(rendered, Rendered { text: Some("Hi.".to_owned()), ..Rendered::default() });
}

#[test]
fn templates_are_jinja() {
    let table = [
        ("{{ n }} {{ f }} {{ big }} {{ yes }}", "7 1.5 18446744073709551615 True"),
        (
            "{{ n + 1 }} {{ n * f }} {{ '%.2f'|format(f) }} {{ (n * f)|round(1) ~ ' EUR' }}",
            "8 10.5 1.50 10.5 EUR",
        ),
        ("{% if n in [6, 7] %}{% elif 1 %}b{% endif %}{{ loop|default('c') }}", "c"),
        ("{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{% endfor %}", "aba"),
        ("{{ people|map(attribute='name')|join(', ') }}", "Ann, Bob"),
        ("?q={{ mark|urlencode }}", "?q=%3Ci%3E"),
        ("[{{ nothing }}]", "[]"),
        ("{{ user.name }} {{ user['name']|upper }}", "Ann ANN"),
        ("{{ unknown|default('friend') }} {{ user.age|default(3) }}", "friend 3"),
        ("{% if unknown is defined %}a{% else %}b{% endif %}{% if not nothing %}c{% endif %}", "bc"),
        ("{% for item in items %}{{ loop.index }}{{ item }} {% endfor %}", "1x 2&lt;y "),
        ("{% for key, value in user|items %}{{ key }}={{ value }}{% endfor %}", "name=Ann"),
        ("{{ items|length }} {{ items|join('-') }}", "2 x-&lt;y"),
        ("{{ mark|safe }}{{ mark }}", "<i>&lt;i&gt;"),
        ("{# nothing #}{% raw %}{{ raw }}{% endraw %}", "{{ raw }}"),
    ];
    let values = json!({
        "n": 7, "f": 1.5, "big": u64::MAX, "yes": true, "nothing": null, "user": {"name": "Ann"},
        "items": ["x", "<y"], "mark": "<i>",
        "people": [{"name": "Ann"}, {"name": "Bob"}],
    });
    for (source, expected) in table {
        assert_eq!(html(source, values.clone()).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn a_missing_variable_is_named() {
    let table = [
        ("{{ name }}", 1, "name"),
        ("\n\n{{ user.name }}", 3, "user.name"),
        ("{{ user.address.street }}", 1, "user.address"),
        ("{% for item in list %}{% endfor %}", 1, "list"),
        ("{% if flag %}{% endif %}", 1, "flag"),
        ("{{ name|upper }}", 1, "name"),
        ("{{ 'Dear ' ~ name }}", 1, "name"),
    ];
    for (source, line, name) in table {
        let expected = Fault::Undefined { part: Part::Html, line, name: name.to_owned() };
        assert_eq!(html(source, json!({"user": {}})), Err(expected), "{source}");
    }
    let fault = html("{{ name }}", json!({})).unwrap_err();
    assert_eq!(fault.to_string(), "html line 1: name is not given; pass it in props or give it a default");
}

#[test]
fn a_subject_is_one_line() {
    let table = [
        ("Hello {{ a }}", "x\r\nBcc: y@example.com", "Hello x Bcc: y@example.com"),
        ("\nHello\n  {{ a }}\n", "x", "Hello x"),
        ("{{ a }}", "a\0b\u{85}c\u{2028}d\te", "a b c d e"),
        ("{{ a }}", "two  spaces", "two  spaces"),
        ("{{ a }}", "\r\n", ""),
    ];
    for (source, value, expected) in table {
        let source = TemplateSource { subject: Some(source), ..TemplateSource::default() };
        let rendered = render(&source, &props(json!({"a": value}))).unwrap();
        assert_eq!(rendered.subject.as_deref(), Some(expected), "{value:?}");
    }
}

#[test]
fn work_without_end_is_cut_off() {
    let table = [
        "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% if list|join(a) %}{% endif %}{% endfor %}\
         {% endfor %}{% endfor %}",
        "{% for a in range(9999) %}{% if list|string %}{% endif %}{% endfor %}",
        "{% for a in range(9999) %}{% if list ~ '' %}{% endif %}{% endfor %}",
        "{% for a in range(9999) %}{% if list|sort %}{% endif %}{% endfor %}",
        "{{ 'x' * 50000000 }}",
        "{{ text|replace('x', text)|replace('x', text)|replace('x', text)|length }}",
        "{{ '%1000000000d'|format(1) }}",
    ];
    let values = json!({"text": "x".repeat(2000), "list": (0..5000).collect::<Vec<_>>()});
    for source in table {
        assert_eq!(html(source, values.clone()), Err(Fault::TooMuchWork { part: Part::Html }), "{source}");
    }
}

#[test]
fn values_that_grow_without_being_paid_for_cannot_be_made() {
    let double = "{% set x = x ~ x %}".repeat(60);
    let table = [
        double.as_str(),
        "{% with x = [x] %}{% endwith %}",
        "{% for a in [[x, x]] %}{{ a }}{% endfor %}",
        "{% for a in [x, x] %}{{ a }}{% endfor %}",
        "{% for a in (x, x) %}{{ a }}{% endfor %}",
        "{% for a in x, x %}{{ a }}{% endfor %}",
        "{{ {'a': x} }}",
        "{% for a in x + x %}{% endfor %}",
        "{% for a in (x * 99)|default(x) %}{% endfor %}",
        "{% for a in x * 99 if x else x %}{% endfor %}",
        "{{ (x + x)|join }}",
        "{{ (x + x) ~ '' }}",
        "{{ (x + x)[0] }}",
        "{{ x in x + x }}",
        "{{ x is eq(x + x) }}",
        "{{ x|batch(2) }}",
        "{{ x|zip(x) }}",
        "{{ x|map('batch', 2) }}",
        "{{ namespace(x=x) }}",
        "{{ dict(x=x) }}",
        "{{ debug() }}",
        "{{ range(*x) }}",
        "{% for a in x recursive %}{{ loop(x) }}{% endfor %}",
        "{% filter upper %}{% endfilter %}",
        "{% do range(3) %}",
        "{% autoescape false %}{{ x }}{% endautoescape %}",
    ];
    for source in table {
        let fault = html(source, json!({"x": ["a"]})).unwrap_err();
        assert!(matches!(fault, Fault::Syntax { line: 1, .. }), "{source:.60} {fault:?}");
    }
    for source in
        ["{{ x }}", "{{ x + x }}", "{{ x * 99999999 }}", "{{ m }}", "{{ x|round }}", "{{ (x + x)|int }}"]
    {
        let fault = html(source, json!({"x": ["a"], "m": {}})).unwrap_err();
        assert!(matches!(fault, Fault::Render { line: 1, .. }), "{source} {fault:?}");
    }
}

#[test]
fn depth_is_refused_and_overflows_nothing() {
    let chains = [
        " + 1",
        "|upper",
        ".a",
        "[0]",
        " if 1 else 1",
        " ** 1",
        " and 1",
        " < 1",
        " ~ 1",
        "(1)",
        " is eq(1)",
    ];
    let nests = [("(", ")"), ("[", "]"), ("{1:", "}"), ("not ", ""), ("-", ""), ("range(", ")")];
    let tags = [
        ("{% if 1 %}", "{% endif %}"),
        ("{% for a in [1] %}", "{% endfor %}"),
        ("{% if 1 %}{% else %}", "{% endif %}"),
        ("{{ 1 ", " }}"),
    ];
    for count in [150, 1000, 100_000] {
        let chained = chains.iter().map(|link| format!("{{{{ x{} }}}}", link.repeat(count)));
        let nested = nests
            .iter()
            .map(|(open, close)| format!("{{{{ {}1{} }}}}", open.repeat(count), close.repeat(count)));
        let tagged =
            tags.iter().map(|(open, close)| format!("{}{}", open.repeat(count), close.repeat(count)));
        let elifs = format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(count));
        for source in chained.chain(nested).chain(tagged).chain([elifs]) {
            // Short ones may be well, as long as there is an answer.
            let outcome = html(&source, json!({"x": 1}));
            assert!(count == 150 || outcome.is_err(), "{source:.40}");
        }
    }
}

#[test]
fn huge_output_is_refused() {
    let half = "x".repeat(EMAIL_TEXT_BYTES_MAX / 2);
    assert_eq!(html("{{ x }}{{ x }}", json!({"x": half})).unwrap().len(), EMAIL_TEXT_BYTES_MAX);
    let expected = Fault::TooLong { part: Part::Html, bytes_max: EMAIL_TEXT_BYTES_MAX };
    assert_eq!(html("{{ x }}{{ x }}.", json!({"x": half})), Err(expected));
    let source = TemplateSource { subject: Some("{{ x }}"), ..TemplateSource::default() };
    let fault = render(&source, &props(json!({"x": half}))).unwrap_err();
    assert_eq!(fault, Fault::TooLong { part: Part::Subject, bytes_max: SUBJECT_BYTES_MAX });
}

#[test]
fn a_template_is_checked_when_it_is_saved() {
    let table = [
        ("{{ name", 1),
        ("a\nb {% if x %}", 2),
        ("\n{% unknown %}", 2),
        ("{{ a b }}", 1),
        ("{% endif %}", 1),
        ("{% include 'other' %}", 1),
        ("{% import 'other' as other %}", 1),
        ("{% extends 'other' %}", 1),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", 1),
        ("{% block b %}{% endblock %}", 1),
    ];
    for (source, expected) in table {
        let source = TemplateSource { subject: Some("fine"), text: Some(source), html: None };
        match check(&source) {
            Err(Fault::Syntax { part: Part::Text, line, message }) => {
                assert!(line == expected && !message.is_empty(), "{source:?} {line} {message}");
            }
            other => panic!("{source:?}: {other:?}"),
        }
    }
    let source =
        TemplateSource { subject: Some("{{ a }}"), text: Some("{% if b %}{% endif %}"), html: Some("") };
    assert_eq!(check(&source), Ok(()));
}

#[test]
fn what_a_template_wants_is_listed() {
    let source = TemplateSource {
        subject: Some("Hello {{ name }}"),
        html: Some("{% for item in order.items %}{{ item.price }} {{ range(3) }}{% endfor %}"),
        text: Some("{{ name }} {{ code|default('none') }}"),
    };
    let used: Vec<String> = props_used(&source).unwrap().into_iter().collect();
    assert_eq!(used, ["code", "name", "order"]);
}

#[test]
fn what_cannot_be_done_says_why() {
    for source in ["{{ name + 1 }}", "{{ name is nonsense }}", "{{ name|int }}", "{{ 1 // 0 }}"] {
        match html(source, json!({"name": "Ann"})) {
            Err(Fault::Render { line: 1, message, .. }) => assert!(!message.is_empty()),
            other => panic!("{source}: {other:?}"),
        }
    }
}
