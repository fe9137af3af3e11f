use super::*;

/// A template that greets.
async fn template(world: &World, more: Value) -> Value {
    let body = json!({"name": "Welcome", "subject": "Hi {{ name }}", "html": "<p>{{ name }}</p>",
        "text": "Hello {{ name }} of {{ place }}", "props": {"place": "Ulm"}});
    world.post("/v1/templates", with(body, more)).await.expect(201)
}

#[tokio::test]
async fn a_template_is_made_read_changed_and_deleted() {
    let world = World::new().await;
    let made = template(&world, json!({})).await;
    let id = text(&made, "id");
    assert!(id.starts_with("tpl_"));
    let draft = json!({"object": "template_version", "id": id.replace("tpl_", "tpv_"), "template_id": id,
        "version": 1, "state": "draft", "subject": "Hi {{ name }}", "html": "<p>{{ name }}</p>",
        "text": "Hello {{ name }} of {{ place }}", "props": {"place": "Ulm"}, "published_at": null,
        "created_at": "2026-11-29T23:19:41.000Z"});
    let mut expected = json!({"object": "template", "id": id, "name": "Welcome", "slug": "welcome",
        "description": null, "status": "draft", "published_version": null, "latest_version": 1,
        "subject": "Hi {{ name }}", "created_at": "2026-11-29T23:19:41.000Z",
        "updated_at": "2026-11-29T23:19:41.000Z", "latest": draft});
    assert_eq!(made, expected);
    for named in [id.as_str(), "welcome"] {
        assert_eq!(world.get(&format!("/v1/templates/{named}")).await.expect(200), expected, "{named}");
    }
    expected.as_object_mut().unwrap().remove("latest");
    assert_eq!(world.get("/v1/templates").await.expect(200)["data"], json!([expected]));

    let change = json!({"name": "Hello", "slug": "hello-1", "description": "first mail"});
    let changed = world.patch("/v1/templates/welcome", change.clone()).await.expect(200);
    for (name, value) in change.as_object().unwrap() {
        assert_eq!(changed[name], *value, "{name}");
    }
    let content = json!({"subject": "Yo", "text": "{{ x }}"});
    let changed = world.post("/v1/templates/hello-1/content", content).await.expect(200);
    assert_eq!((&changed["subject"], &changed["latest"]["html"]), (&json!("Yo"), &Value::Null));
    assert_eq!(changed["latest"]["props"], json!({}));

    world.get("/v1/templates/welcome").await.refused(404, "template_not_found");
    let stranger = world.stranger().await;
    for (method, below, body) in [
        ("GET", "", Value::Null),
        ("PATCH", "", json!({"name": "x"})),
        ("DELETE", "", Value::Null),
        ("POST", "/duplicate", Value::Null),
        ("POST", "/content", json!({"subject": "x", "text": "y"})),
        ("POST", "/versions", Value::Null),
        ("GET", "/versions", Value::Null),
        ("POST", "/preview", Value::Null),
        ("POST", "/send", json!({"from": "a@x.example", "to": "b@x.example"})),
    ] {
        let answer = world.call(&stranger, method, &format!("/v1/templates/{id}{below}"), body).await;
        answer.refused(404, "template_not_found");
    }
    world.delete("/v1/templates/hello-1").await.expect(204);
    world.delete(&format!("/v1/templates/{id}")).await.refused(404, "template_not_found");
}

#[tokio::test]
async fn slugs_are_unique_and_copies_find_a_free_one() {
    let world = World::new().await;
    template(&world, json!({"publish": true})).await;
    let body = json!({"name": "Welcome!", "text": "t"});
    let error = world.post("/v1/templates", body).await.refused(409, "name_taken");
    assert_eq!(error["param"], "slug");
    template(&world, json!({"slug": "other"})).await;
    let error =
        world.patch("/v1/templates/other", json!({"slug": "welcome"})).await.refused(409, "name_taken");
    assert_eq!(error["param"], "slug");

    let copy = async |body: Value| world.post("/v1/templates/welcome/duplicate", body).await;
    let first = copy(Value::Null).await.expect(201);
    assert_eq!((&first["name"], &first["slug"]), (&json!("Welcome (copy)"), &json!("welcome-copy")));
    assert_eq!(
        (&first["status"], &first["latest"]["text"]),
        (&json!("draft"), &json!("Hello {{ name }} of {{ place }}"))
    );
    assert_eq!(copy(json!({})).await.expect(201)["slug"], "welcome-copy-2");
    let error = copy(json!({"slug": "other"})).await.refused(409, "name_taken");
    assert_eq!(error["param"], "slug");
    let named = copy(json!({"name": "N", "slug": "n"})).await.expect(201);
    assert_eq!((&named["name"], &named["slug"]), (&json!("N"), &json!("n")));
    assert_eq!(copy(json!({"slug": "A"})).await.refused(422, "invalid_field")["param"], "slug");
}

#[tokio::test]
async fn publishing_what_is_published_changes_nothing() {
    let world = World::new().await;
    template(&world, json!({})).await;
    let publish = async || world.post("/v1/templates/welcome/versions", Value::Null).await;
    let first = publish().await.expect(201);
    let expected = json!({"object": "template_version", "id": first["id"], "template_id": first["template_id"],
        "version": 1, "state": "published", "subject": "Hi {{ name }}", "html": "<p>{{ name }}</p>",
        "text": "Hello {{ name }} of {{ place }}", "props": {"place": "Ulm"},
        "published_at": "2026-11-29T23:19:41.000Z", "created_at": "2026-11-29T23:19:41.000Z"});
    assert_eq!(first, expected);
    world.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(publish().await.expect(200), first);
    let shown = world.get("/v1/templates/welcome").await.expect(200);
    assert_eq!((&shown["status"], &shown["published_version"]), (&json!("published"), &json!(1)));
    assert_eq!((&shown["latest_version"], &shown["latest"]), (&json!(1), &first));

    let content = json!({"subject": "Two", "html": "<b>2</b>"});
    let changed = world.post("/v1/templates/welcome/content", content).await.expect(200);
    assert_eq!((&changed["published_version"], &changed["latest_version"]), (&json!(1), &json!(2)));
    assert_eq!(changed["latest"]["state"], "draft");
    let listed = world.get("/v1/templates").await.expect(200);
    assert_eq!(
        (&listed["data"][0]["latest_version"], &listed["data"][0]["subject"]),
        (&json!(2), &json!("Two"))
    );
    let second = publish().await.expect(201);
    assert_eq!((&second["version"], &second["subject"]), (&json!(2), &json!("Two")));
    let versions = world.get("/v1/templates/welcome/versions").await.expect(200);
    assert_eq!(versions["data"], json!([second, first]));

    let at_once = template(&world, json!({"slug": "b", "publish": true})).await;
    assert_eq!(
        (&at_once["published_version"], &at_once["latest"]["state"]),
        (&json!(1), &json!("published"))
    );
}

#[tokio::test]
async fn of_those_who_publish_at_the_same_time_one_makes_the_version() {
    let world = World::new().await;
    template(&world, json!({})).await;
    let publish = || world.post("/v1/templates/welcome/versions", Value::Null);
    let (a, b, c) = tokio::join!(publish(), publish(), publish());
    for answer in [a, b, c] {
        assert!([200, 201].contains(&answer.status.as_u16()), "{answer:?}");
        assert_eq!(answer.json()["version"], 1);
    }
    let versions = world.get("/v1/templates/welcome/versions").await.expect(200);
    assert_eq!(column(&versions, "version"), [json!(1)]);
}

#[tokio::test]
async fn templates_that_are_none_are_refused_when_they_are_saved() {
    let world = World::new().await;
    template(&world, json!({})).await;
    world.post("/v1/templates", json!({"name": "Empty"})).await.expect(201);
    let content = "/v1/templates/welcome/content";
    for (path, body, code, param) in [
        ("/v1/templates", json!({"name": "b", "html": "x\n{{ y"}), "template_syntax", "html"),
        ("/v1/templates", json!({"name": "b", "publish": true}), "invalid_field", "html"),
        ("/v1/templates", json!({"name": "b", "publish": 1}), "invalid_field", "publish"),
        (content, json!({"subject": "{% if %}", "text": "t"}), "template_syntax", "subject"),
        (content, json!({"subject": "s"}), "invalid_field", "html"),
        (content, json!({"html": "t"}), "missing_field", "subject"),
        (content, json!({"subject": "s", "html": "t", "props": 1}), "invalid_field", "props"),
        ("/v1/templates/empty/versions", Value::Null, "invalid_field", "html"),
        ("/v1/templates/welcome/preview", json!({"props": "x"}), "invalid_field", "props"),
        ("/v1/templates/welcome/preview", json!({"props": {}}), "template_not_renderable", "props"),
        ("/v1/templates/render", json!({"html": "{{ x }"}), "template_syntax", "html"),
        ("/v1/templates/render", json!({"html": "{{ x }}"}), "template_not_renderable", "props"),
        ("/v1/templates/render", json!({"name": "x"}), "unknown_field", "name"),
    ] {
        let error = world.post(path, body.clone()).await.refused(422, code);
        assert_eq!(error["param"], param, "{path} {body}: {error}");
    }
    for (body, param) in [(json!({"name": null}), "name"), (json!({"slug": null}), "slug")] {
        let error = world.patch("/v1/templates/welcome", body).await.refused(422, "invalid_field");
        assert_eq!(error["param"], param);
    }
}

#[tokio::test]
async fn a_draft_and_loose_parts_are_rendered() {
    let world = World::new().await;
    template(&world, json!({})).await;
    let preview = json!({"props": {"name": "<Jo>"}});
    let shown = world.post("/v1/templates/welcome/preview", preview).await.expect(200);
    assert_eq!(
        shown,
        json!({"object": "template_preview", "subject": "Hi <Jo>", "html": "<p>&lt;Jo&gt;</p>",
            "text": "Hello <Jo> of Ulm"})
    );
    let loose = json!({"html": "{{ a.b }}", "props": {"a": {"b": 1.50}}});
    let shown = world.post("/v1/templates/render", loose).await.expect(200);
    assert_eq!(shown, json!({"object": "template_preview", "subject": null, "html": "1.5", "text": null}));
}

#[tokio::test]
async fn a_sent_template_is_an_email_and_a_key_makes_one_of_it() {
    let world = World::new().await;
    let made = template(&world, json!({"publish": true})).await;
    let path = "/v1/templates/welcome/send";
    let body =
        json!({"from": "a@x.example", "to": "b@y.example", "props": {"name": "Jo"}, "tags": {"k": "v"}});
    let first = keyed(&world, "k", path, &body).await.expect(202);
    assert_eq!((&first["subject"], &first["replayed"]), (&json!("Hi Jo"), &json!(false)));
    let again = keyed(&world, "k", path, &body).await.expect(200);
    assert_eq!((&again["id"], &again["replayed"]), (&first["id"], &json!(true)));
    let mime = mime(&world, &first).await;
    assert!(mime.contains("<p>Jo</p>") && mime.contains("Hello Jo of Ulm"), "{mime}");

    // A known key answers, whatever has become of the template.
    world.post("/v1/templates/welcome/content", json!({"subject": "New", "text": "n"})).await.expect(200);
    world.post("/v1/templates/welcome/versions", Value::Null).await.expect(201);
    assert_eq!(keyed(&world, "k", path, &body).await.expect(200)["id"], first["id"]);
    for other in [json!({"props": {"name": "Al"}}), json!({"version": 1}), json!({"subject": "s"})] {
        let answer = keyed(&world, "k", path, &with(body.clone(), other)).await;
        answer.refused(422, "idempotency_key_reuse");
    }
    let as_email = json!({"from": "a@x.example", "to": "b@y.example", "tags": {"k": "v"},
        "template": {"id": "welcome", "props": {"name": "Jo"}}});
    keyed(&world, "k", "/v1/emails", &as_email).await.refused(422, "idempotency_key_reuse");

    let subject =
        async |more: Value| world.post(path, with(body.clone(), more)).await.expect(202)["subject"].clone();
    assert_eq!(subject(json!({})).await, "New");
    assert_eq!(subject(json!({"version": 1})).await, "Hi Jo");
    assert_eq!(subject(json!({"subject": "Mine"})).await, "Mine");
    world.delete(&format!("/v1/templates/{}", text(&made, "id"))).await.expect(204);
    assert_eq!(keyed(&world, "k", path, &body).await.expect(200)["id"], first["id"]);
    world.post(path, body).await.refused(404, "template_not_found");
}

#[tokio::test]
async fn a_template_that_makes_no_email_says_why() {
    let world = World::new().await;
    template(&world, json!({})).await;
    let path = "/v1/templates/welcome/send";
    let body = json!({"from": "a@x.example", "to": "b@y.example", "props": {"name": "Jo"}});
    let error = keyed(&world, "k", path, &body).await.refused(422, "template_not_published");
    assert_eq!(error["param"], "id");
    world.post("/v1/templates/welcome/versions", Value::Null).await.expect(201);
    for (more, code, param) in [
        (json!({"to": "b"}), "invalid_field", "to"),
        (json!({"to": null}), "invalid_field", "to"),
        (json!({"from": null}), "invalid_field", "from"),
        (json!({"props": [1]}), "invalid_field", "props"),
        (json!({"props": {}}), "template_not_renderable", "props"),
        (json!({"scheduled_at": "2027-01-29T23:19:41Z"}), "invalid_field", "scheduled_at"),
        (json!({"html": "x"}), "unknown_field", "html"),
    ] {
        let error = keyed(&world, "k", path, &with(body.clone(), more.clone())).await.refused(422, code);
        assert_eq!(error["param"], param, "{more}: {error}");
    }
    let missing = with(body.clone(), json!({"version": 7}));
    keyed(&world, "k", path, &missing).await.refused(404, "template_version_not_found");
    // None of these took the key.
    keyed(&world, "k", path, &body).await.expect(202);
    let in_email = json!({"from": "a@x.example", "to": "b@y.example", "template": {"id": "welcome"}});
    let error = world.post("/v1/emails", in_email).await.refused(422, "template_not_renderable");
    assert_eq!(error["param"], "template.props");
}
