use super::*;
use crate::api::router;

#[tokio::test]
async fn a_domain_is_verified_by_what_the_dns_says() {
    let world = World::new().await;
    let made = world.post("/v1/domains", json!({"name": "Bücher.example"})).await.expect(201);
    let path = format!("/v1/domains/{}", text(&made, "id"));
    let records = made["records"].as_array().unwrap().clone();
    let (name, value) = (text(&records[0], "name"), text(&records[0], "value"));
    assert!(text(&made, "id").starts_with("dom_"));
    assert!(name.starts_with("rst") && name.ends_with("._domainkey.xn--bcher-kva.example"), "{name}");
    assert_eq!(name.split('.').next().unwrap().len(), 11);
    assert!(value.starts_with("v=DKIM1; k=rsa; p=MII"), "{value}");
    let record = |name: &str, value: &str, purpose: &str| json!({"type": "TXT", "name": name, "value": value, "priority": null, "purpose": purpose, "status": "pending"});
    let pending = json!({"object": "domain", "id": made["id"], "name": "xn--bcher-kva.example",
        "sending": {"status": "pending", "can_send": true, "checked_at": null, "error": null,
            "note": "its mail is sent, but not signed until the domain is verified"},
        "records": [record(&name, &value, "dkim"),
            record("xn--bcher-kva.example", "v=spf1 a mx ~all", "spf"),
            record("_dmarc.xn--bcher-kva.example", "v=DMARC1; p=none", "dmarc")],
        "created_at": "2026-11-29T23:19:41.000Z", "updated_at": "2026-11-29T23:19:41.000Z"});
    assert_eq!(made, pending);
    assert_eq!(world.get(&path).await.expect(200), pending);
    assert_eq!(world.get("/v1/domains").await.expect(200)["data"], json!([pending]));

    let verify = async || world.post(&format!("{path}/verify"), Value::Null).await.expect(200);
    let statuses = |domain: &Value| -> Vec<Value> {
        domain["records"].as_array().unwrap().iter().map(|record| record["status"].clone()).collect()
    };
    let nothing = verify().await;
    let absent = format!("there is no TXT record at {name}");
    assert_eq!(nothing["sending"]["status"], "failed");
    assert_eq!(nothing["sending"]["error"], absent.as_str());
    assert_eq!(nothing["sending"]["checked_at"], "2026-11-29T23:19:41.000Z");
    assert_eq!(statuses(&nothing), ["pending", "pending", "pending"]);

    world.zone.set(&name, Ok(&["v=DKIM1; p=AAAA"]));
    let other = verify().await;
    assert_eq!(
        (&other["sending"]["status"], &other["sending"]["can_send"]),
        (&json!("failed"), &json!(true))
    );
    assert_eq!(statuses(&other), ["failed", "pending", "pending"]);

    world.zone.set(&name, Ok(&[&value]));
    world.zone.set("xn--bcher-kva.example", Ok(&["v=spf1 include:other.example ~all"]));
    world.zone.set("_dmarc.xn--bcher-kva.example", Ok(&["v=DMARC1; p=reject"]));
    let verified = verify().await;
    let sending = json!({"status": "verified", "can_send": true, "checked_at": "2026-11-29T23:19:41.000Z",
        "error": null, "note": null});
    assert_eq!(verified["sending"], sending);
    assert_eq!(statuses(&verified), ["verified", "failed", "verified"]);
    assert_eq!(world.get(&path).await.expect(200)["sending"], sending);

    // Name servers that are down take no domain its verification.
    world.zone.set(&name, Err("timed out"));
    let silent = verify().await;
    assert_eq!(silent["sending"]["status"], "verified");
    assert_eq!(silent["sending"]["error"], "the name servers gave no answer: timed out");
    // A record that is gone does.
    world.zone.set(&name, Ok(&[]));
    assert_eq!(verify().await["sending"]["status"], "failed");
    assert_eq!(world.get(&path).await.expect(200)["sending"]["error"], absent.as_str());

    world.post("/v1/domains", json!({"name": "xn--bcher-kva.example"})).await.refused(409, "name_taken");
    let same = world.patch(&path, json!({"name": "BÜCHER.example"})).await.expect(200);
    assert_eq!(same["name"], "xn--bcher-kva.example");
    world.patch(&path, json!({})).await.expect(200);
    let error = world.patch(&path, json!({"name": "other.example"})).await.refused(422, "invalid_field");
    assert_eq!(error["param"], "name");

    let stranger = world.stranger().await;
    for (method, below) in [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/verify")] {
        let answer = world.call(&stranger, method, &format!("{path}{below}"), Value::Null).await;
        answer.refused(404, "domain_not_found");
    }
    world.delete(&path).await.expect(204);
    world.get(&path).await.refused(404, "domain_not_found");
    world.post(&format!("{path}/verify"), Value::Null).await.refused(404, "domain_not_found");
}

#[tokio::test]
async fn mail_may_be_taken_from_verified_domains_only() {
    let mut world = World::new().await;
    world.router = router(ApiState { require_verified_domains: true, ..world.state.clone() });
    let made = world.post("/v1/domains", json!({"name": "x.example"})).await.expect(201);
    assert_eq!(made["sending"]["can_send"], false);
    assert_eq!(made["sending"]["note"], "no mail is taken from it until the domain is verified");
    let email = json!({"from": "a@x.example", "to": "b@y.example", "text": "t",
        "scheduled_at": "2026-12-01T00:00:00Z"});
    let error = world.post("/v1/emails", email.clone()).await.refused(403, "domain_not_verified");
    assert_eq!(error["param"], "from");

    let record = &made["records"][0];
    world.zone.set(&text(record, "name"), Ok(&[&text(record, "value")]));
    let path = format!("/v1/domains/{}/verify", text(&made, "id"));
    assert_eq!(world.post(&path, Value::Null).await.expect(200)["sending"]["can_send"], true);
    let sent = world.post("/v1/emails", email).await.expect(202);
    let path = format!("/v1/emails/{}", text(&sent, "id"));
    let error =
        world.patch(&path, json!({"from": "a@other.example"})).await.refused(403, "domain_not_verified");
    assert_eq!(error["param"], "from");
    world.patch(&path, json!({"from": "c@x.example"})).await.expect(200);
}

#[tokio::test]
async fn what_is_no_domain_is_refused() {
    let world = World::new().await;
    for (body, code, param) in [
        (json!({}), "missing_field", "name"),
        (json!({"name": 3}), "invalid_field", "name"),
        (json!({"name": "a@b.example"}), "invalid_field", "name"),
        (json!({"name": "192.0.2.1"}), "invalid_field", "name"),
        (json!({"domain": "a.example"}), "unknown_field", "domain"),
    ] {
        let error = world.post("/v1/domains", body.clone()).await.refused(422, code);
        assert_eq!(error["param"], param, "{body}");
    }
}
