use std::collections::HashMap;

use super::*;

const KEY: &str = "v=DKIM1; k=rsa; p=MIIBIjANBg+kq/hkiG9w0=";

/// A DNS that holds what a test put there. What it does not know does not answer.
#[derive(Default)]
struct Zone(HashMap<&'static str, Vec<&'static str>>);

#[async_trait]
impl Lookup for Zone {
    async fn txt(&self, name: &str) -> Result<Vec<String>, LookupFault> {
        let found = self.0.get(name).ok_or_else(|| LookupFault(format!("no answer about {name}")))?;
        Ok(found.iter().map(|text| (*text).to_owned()).collect())
    }
}

fn records() -> Vec<Record> {
    wanted(Setup { domain: "example.com", selector: "r1", dkim: KEY, senders: "a include:spf.relay.example" })
}

#[test]
fn a_domain_is_told_three_records() {
    let shown = serde_json::to_value(records()).unwrap();
    let expected = serde_json::json!([
        {"type": "TXT", "name": "r1._domainkey.example.com", "value": KEY, "priority": null, "purpose": "dkim",
            "status": "pending"},
        {"type": "TXT", "name": "example.com", "value": "v=spf1 a include:spf.relay.example ~all", "priority": null,
            "purpose": "spf", "status": "pending"},
        {"type": "TXT", "name": "_dmarc.example.com", "value": "v=DMARC1; p=none", "priority": null,
            "purpose": "dmarc", "status": "pending"},
    ]);
    assert_eq!(shown, expected);
    assert_eq!(serde_json::from_value::<Vec<Record>>(shown).unwrap(), records());
}

#[test]
fn records_are_judged_by_what_they_say() {
    use Purpose::{Dkim, Dmarc, Spf};
    use Status::{Failed, Pending, Verified};
    let table: [(Purpose, &[&str], Status); 27] = [
        (Dkim, &[], Pending),
        (Dkim, &[KEY], Verified),
        (Dkim, &["p=MIIBIjANBg+kq/hkiG9w0=; k=rsa; v=DKIM1;"], Verified),
        (Dkim, &["v = DKIM1;k=RSA ; n=note; p = MIIBIjANBg +kq/hk\tiG9w0= ;"], Verified),
        (Dkim, &["p=MIIBIjANBg+kq/hkiG9w0="], Verified),
        (Dkim, &["v=DKIM1; k=rsa; p=MIIBIjANBg+kq/hkiG9w1="], Failed),
        (Dkim, &["v=DKIM1; k=rsa; p=miibijanbg+kq/hkiG9w0="], Failed),
        (Dkim, &["v=DKIM1; k=rsa; p="], Failed),
        (Dkim, &["v=DKIM1; k=ed25519; p=MIIBIjANBg+kq/hkiG9w0="], Failed),
        (Dkim, &["v=DKIM2; p=MIIBIjANBg+kq/hkiG9w0="], Failed),
        (Dkim, &["v=spf1 -all"], Failed),
        (Dkim, &[KEY, KEY], Failed),
        (Spf, &[], Pending),
        (Spf, &["some-site-verification=1", "v=spf10 a"], Pending),
        (Spf, &["v=spf1 a include:spf.relay.example ~all", "other"], Verified),
        (Spf, &["V=SPF1 mx +include:SPF.relay.example +A -all"], Verified),
        (Spf, &["v=spf1 a mx ~all"], Failed),
        (Spf, &["v=spf1 ?include:spf.relay.example a ~all"], Failed),
        (Spf, &["v=spf1"], Failed),
        (Spf, &["v=spf1 a include:spf.relay.example ~all", "v=spf1 -all"], Failed),
        (Dmarc, &[], Pending),
        (Dmarc, &["p=none; v=DMARC1", "v=spf1 -all"], Pending),
        (Dmarc, &["v=DMARC1; p=none"], Verified),
        (Dmarc, &["v=DMARC1;p=Reject;rua=mailto:a@example.com"], Verified),
        (Dmarc, &["v=DMARC1; p=maybe"], Failed),
        (Dmarc, &["v=DMARC1; sp=none"], Failed),
        (Dmarc, &["v=DMARC1; p=none", "v=DMARC1; p=reject"], Failed),
    ];
    for (purpose, found, expected) in table {
        let record = records().into_iter().find(|record| record.purpose == purpose).unwrap();
        let found: Vec<String> = found.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(status(&record, &found), expected, "{purpose:?} {found:?}");
    }
}

#[tokio::test]
async fn a_lookup_without_an_answer_changes_nothing() {
    let mut zone = Zone::default();
    zone.0.insert("r1._domainkey.example.com", vec![KEY]);
    zone.0.insert("_dmarc.example.com", vec!["v=DMARC1; p=none"]);
    let mut records = records();
    records[1].status = Status::Verified;
    let fault = check(&mut records, &zone).await.unwrap_err();
    assert_eq!(fault.to_string(), "no answer about example.com");
    assert!(records.iter().all(|record| record.status == Status::Verified));

    // What is taken away is seen.
    zone.0 = [("r1._domainkey.example.com", vec![]), ("example.com", vec![]), ("_dmarc.example.com", vec![])]
        .into();
    check(&mut records, &zone).await.unwrap();
    assert!(records.iter().all(|record| record.status == Status::Pending));
}
