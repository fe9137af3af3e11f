use super::*;

#[tokio::test]
async fn a_mailbox_is_suppressed_once_however_it_is_written() {
    let world = World::new().await;
    let made = world.post("/v1/suppressions", json!({"email": "Jane@Example.com"})).await.expect(201);
    assert!(text(&made, "id").starts_with("sup_"));
    let expected = json!({"object": "suppression", "id": made["id"], "email": "Jane@example.com",
        "reason": "manual", "detail": null, "removable": true, "created_at": "2026-11-29T23:19:41.000Z"});
    assert_eq!(made, expected);
    for same in ["Jane@Example.com", "jane@example.com", "\"jane\"@EXAMPLE.com"] {
        let again = world.post("/v1/suppressions", json!({"email": same})).await.expect(200);
        assert_eq!(again, expected, "{same}");
    }
    assert_eq!(world.get("/v1/suppressions").await.expect(200)["data"], json!([expected]));

    let email = json!({"from": "a@x.example", "to": ["jane@example.com", "b@x.example"], "text": "t"});
    let sent = world.post("/v1/emails", email.clone()).await.expect(202);
    assert_eq!(sent["recipients"][0]["status"], "suppressed");
    assert_eq!(sent["recipients"][1]["status"], "pending");

    let path = format!("/v1/suppressions/{}", text(&made, "id"));
    world
        .call(&world.stranger().await, "DELETE", &path, Value::Null)
        .await
        .refused(404, "suppression_not_found");
    world.delete(&path).await.expect(204);
    world.delete(&path).await.refused(404, "suppression_not_found");
    let sent = world.post("/v1/emails", email).await.expect(202);
    assert_eq!(sent["recipients"][0]["status"], "pending");
}

#[tokio::test]
async fn one_of_many_suppressions_is_found_again() {
    let world = World::new().await;
    let add = async |number: u32| {
        world.post("/v1/suppressions", json!({"email": format!("a{number}@x.example")})).await
    };
    for number in 0..105 {
        add(number).await.expect(201);
    }
    assert_eq!(add(0).await.expect(200)["email"], "a0@x.example");
    let page = world.get("/v1/suppressions?limit=2&include_total=true").await.expect(200);
    assert_eq!(
        (column(&page, "email"), &page["total"]),
        (vec![json!("a104@x.example"), json!("a103@x.example")], &json!(105))
    );
}

#[tokio::test]
async fn what_is_no_mailbox_is_refused() {
    let world = World::new().await;
    for (body, code, param) in [
        (json!({}), "missing_field", "email"),
        (json!({"email": null}), "invalid_field", "email"),
        (json!({"email": "jane"}), "invalid_field", "email"),
        (json!({"email": "Jane <jane@example.com>"}), "invalid_field", "email"),
        (json!({"email": "jane@example.com", "reason": "manual"}), "unknown_field", "reason"),
    ] {
        let error = world.post("/v1/suppressions", body.clone()).await.refused(422, code);
        assert_eq!(error["param"], param, "{body}");
    }
}
