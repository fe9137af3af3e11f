use super::*;

fn read(json: &str) -> Result<Read, ApiError> {
    crate::api::body::parse::<EmailInput>(json.as_bytes())?.read()
}

#[test]
fn ways_to_write_the_same_are_one_email() {
    let forms = [
        r#"{"from":"A <a@x.example>","to":"b@x.example","text":"t"}"#,
        r#"{"text":"t", "to":["b@x.example"], "from":{"email":"a@X.example","name":"A"}, "cc":null, "bcc":[], "html":null}"#,
        r#"{"from":{"name":"A","email":"a@x.example"},"to":[{"email":"b@x.example"}],"text":"t","tags":null,"metadata":null}"#,
        r#"{"from":{"name":"A","email":"a@x.example"},"to":{"email":"b@x.example","name":null},"text":"t","attachments":[]}"#,
    ];
    let first = read(forms[0]).unwrap().email;
    for form in forms {
        assert_eq!(read(form).unwrap().email, first, "{form}");
    }
}

#[test]
fn attachments_are_the_same_in_every_encoding() {
    for encoded in ["+/8=", "-_8", "+/8", "+/\r\n8=", " - _ 8 = "] {
        assert_eq!(base64(encoded).as_deref(), Some(&[0xfb, 0xff][..]), "{encoded:?}");
    }
    for wrong in ["a", "****", "+/8===", "=a"] {
        assert_eq!(base64(wrong), None, "{wrong:?}");
    }
    assert_eq!(base64(""), Some(Vec::new()));
    assert_eq!((type_of("a.PDF"), type_of("a")), ("application/pdf", "application/octet-stream"));
}

#[test]
fn faults_name_their_field() {
    let table = [
        (r#"{"to":"b@x.example","text":"t"}"#, "from"),
        (r#"{"from":"a@x.example","text":"t"}"#, "to"),
        (r#"{"from":"a@x.example","to":"b@x.example"}"#, "html"),
        (r#"{"from":"a","to":"b@x.example","text":"t"}"#, "from"),
        (r#"{"from":"a@x.example","to":"b","text":"t"}"#, "to"),
        (r#"{"from":"a@x.example","to":["b@x.example","c"],"text":"t"}"#, "to[1]"),
        (r#"{"from":"a@x.example","to":3,"text":"t"}"#, "to"),
        (r#"{"from":"a@x.example","to":[{"mail":"b@x.example"}],"text":"t"}"#, "to[0].mail"),
        (r#"{"from":"a@x.example","to":"b@x.example","text":"t","subject":"a\nb"}"#, "subject"),
        (r#"{"from":"a@x.example","to":"b@x.example","text":"t","metadata":[]}"#, "metadata"),
        (r#"{"from":"a@x.example","to":"b@x.example","text":"t","scheduled_at":"soon"}"#, "scheduled_at"),
        (
            r#"{"from":"a@x.example","to":"b@x.example","text":"t","attachments":[{"filename":"a","content":"*"}]}"#,
            "attachments[0].content",
        ),
        (r#"{"from":"a@x.example","to":"b@x.example","text":"t","template":{"id":"x"}}"#, "template"),
        (r#"{"from":"a@x.example","to":"b@x.example","text":"t","htlm":"x"}"#, "htlm"),
    ];
    for (json, param) in table {
        let Err(error) = read(json) else { panic!("{json} is no email") };
        let body = serde_json::to_value(error.body("r")).unwrap();
        assert_eq!(error.status.as_u16(), 422, "{body}");
        assert_eq!(body["error"]["param"], param, "{json}: {body}");
    }
}
