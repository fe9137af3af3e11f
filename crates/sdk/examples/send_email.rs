//! Sends an email once, however often it is run for the same invoice.
//!
//! `RESTANTE_API_KEY=rst_… cargo run -p restante-sdk --example send_email -- inv_4192 ada@customer.example`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use restante_sdk::Client;
use restante_sdk::wire::SendEmail;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(invoice), Some(to)) = (words.next(), words.next()) else {
        return Err("usage: send_email INVOICE ADDRESS".into());
    };
    let client = Client::from_env()?;
    let email = SendEmail {
        text: Some(format!("The invoice {invoice} is ready.")),
        ..SendEmail::new("Billing <billing@shop.example>", to, format!("Your invoice {invoice}"))
    };
    // From what made it necessary: whoever runs this again for the same invoice sends nothing more.
    let key = format!("invoice:{invoice}");
    let sent = client.emails().send(&email).idempotency_key(key).answered().await?;
    let how = if sent.value.replayed() { "was sent before and is" } else { "is" };
    println!("{} {how} {} ({} tries)", sent.value.id(), sent.value.status(), sent.attempts);
    Ok(())
}
