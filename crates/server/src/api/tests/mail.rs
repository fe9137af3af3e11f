//! Mail: what it is made of, where it comes from, whom it does not go to, and changes before it leaves.

mod change;
mod content;
mod deliveries;
mod domains;
mod suppressions;
mod templates;

use super::*;

/// A call with an idempotency key.
async fn keyed(world: &World, key: &str, path: &str, body: &Value) -> Answer {
    let request = Request::builder()
        .method("POST")
        .uri(path)
        .header("authorization", format!("Bearer {}", world.admin))
        .header("idempotency-key", key);
    world.send(request.body(Body::from(body.to_string())).unwrap()).await
}

/// The bytes of an email.
async fn mime(world: &World, email: &Value) -> String {
    let workspace = world.get("/v1/workspace").await.expect(200);
    let (workspace, id) = (text(&workspace, "id").parse().unwrap(), text(email, "id").parse().unwrap());
    let bytes = world.store.email_mime(workspace, id, world.clock.now()).await.unwrap().unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An object with some of its fields replaced.
fn with(mut object: Value, more: Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}
