//! Publishes an event to customers' webhooks from a thread, and shows where it has got to.
//!
//! `RESTANTE_API_KEY=rst_… cargo run -p restante-sdk --example publish_event -- inv_4192`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use restante_sdk::blocking::Client;
use restante_sdk::wire::{ListDeliveries, PublishEvent};
use serde::Serialize;

#[derive(Serialize)]
struct Paid<'a> {
    invoice: &'a str,
    /// A decimal text: money is no floating-point number.
    amount: &'a str,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let invoice = std::env::args().nth(1).ok_or("usage: publish_event INVOICE")?;
    let client = Client::from_env()?;
    let event = PublishEvent::new("invoice.paid", &Paid { invoice: &invoice, amount: "129.00" })?;
    let published =
        client.events().publish(&event).idempotency_key(format!("invoice-paid:{invoice}")).wait()?;
    let before = if published.replayed { ", published before" } else { "" };
    println!("{} goes to {} webhooks{before}", published.id, published.deliveries);

    let wanted = ListDeliveries { event: Some(published.id), ..Default::default() };
    for delivery in client.deliveries().list(&wanted).items() {
        let delivery = delivery?;
        let why = delivery.wait_because.as_deref().unwrap_or_default();
        println!("{} {} {why}", delivery.id, delivery.state);
    }
    Ok(())
}
