//! What an email says, read back.

use super::*;

const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(2)>";

#[tokio::test]
async fn what_an_email_says_comes_back_with_its_attachments_and_its_source() {
    let world = World::new().await;
    let body = json!({
        "from": "Jörg <a@x.example>", "to": "b@y.example", "subject": "Grüße an alle, die das hier lesen sollen und wollen",
        "html": HOSTILE, "text": "plain\ntext", "headers": {"X-Order": "1042"},
        "attachments": [
            {"filename": "bill.pdf", "content": "AP8B", "content_type": "application/pdf"},
            {"filename": "logo.png", "content": "iVBO", "content_type": "image/png", "content_id": "logo"},
        ],
    });
    let email = world.post("/v1/emails", body).await.expect(202);
    let path = format!("/v1/emails/{}", text(&email, "id"));
    let content = world.get(&format!("{path}/content")).await.expect(200);
    assert_eq!((&content["html"], &content["text"]), (&json!(HOSTILE), &json!("plain\ntext")));
    let header = |name: &str| {
        let lines = content["headers"].as_array().unwrap().iter();
        lines.filter(|line| line[0] == name).map(|line| text(&json!({"v": line[1]}), "v")).collect::<Vec<_>>()
    };
    assert_eq!(header("Subject"), ["Grüße an alle, die das hier lesen sollen und wollen"]);
    assert_eq!(header("X-Order"), ["1042"]);
    assert!(header("From")[0].contains("<a@x.example>"), "{:?}", header("From"));
    assert_eq!(
        content["attachments"],
        json!([
            {"index": 0, "filename": "logo.png", "content_type": "image/png", "content_id": "logo", "inline": true, "bytes": 3},
            {"index": 1, "filename": "bill.pdf", "content_type": "application/pdf", "content_id": null, "inline": false, "bytes": 3},
        ])
    );
    let file = world.get(&format!("{path}/attachments/1")).await;
    assert_eq!(
        (&file.body[..], file.header("content-type")),
        (&b"\x00\xff\x01"[..], "application/octet-stream")
    );
    assert_eq!(
        (file.header("content-disposition"), file.header("x-content-type-options")),
        ("attachment", "nosniff")
    );
    let source = world.get(&format!("{path}/source")).await;
    assert_eq!(source.header("content-type"), "application/octet-stream");
    assert_eq!(source.body, mime(&world, &email).await);
    assert_eq!(content["source_bytes"], source.body.len());

    world.get(&format!("{path}/attachments/2")).await.refused(404, "attachment_not_found");
    world.get(&format!("{path}/attachments/x")).await.refused(404, "not_found");
    // One of the other mode is not there.
    let tester = json!({"name": "t", "mode": "test", "scopes": ["emails:read"]});
    let tester = text(&world.post("/v1/keys", tester).await.expect(201), "token");
    for part in ["content", "source", "attachments/0"] {
        let answer = world.call(&tester, "GET", &format!("{path}/{part}"), Value::Null).await;
        answer.refused(404, "email_not_found");
    }
}
