//! What handlers of all configuration records have in common: read, change, delete.

use restante_core::Id;
use restante_core::id::WorkspaceId;
use restante_store::record::{Kept, Kind, Record, Written};

use super::ApiState;
use super::error::ApiError;

/// How often a change is tried again because somebody else was faster.
const TRIES: usize = 8;

/// Where a record is looked for.
pub(crate) struct Place<T: Kept> {
    pub(crate) workspace: WorkspaceId,
    /// What it must belong to, where the path names it.
    pub(crate) parent: Option<u128>,
    pub(crate) id: Id<T::IdKind>,
}

/// Reads a record.
///
/// # Errors
/// 404 when it is not there.
pub(crate) async fn get<T: Kept>(api: &ApiState, place: &Place<T>) -> Result<Record<T>, ApiError> {
    let record = api.store.get::<T>(place.workspace, place.id).await?;
    record
        .filter(|record| place.parent.is_none() || record.parent == place.parent)
        .ok_or_else(ApiError::not_found::<T::IdKind>)
}

/// Reads a record, lets `apply` change its body, and writes it, again from the start if somebody else changed it in
/// between. What stays the same is not written.
///
/// # Errors
/// 404 when it is not there, what `apply` says, 409 when the name is taken.
pub(crate) async fn change<T: Kept + Clone + PartialEq + Sync>(
    api: &ApiState,
    place: &Place<T>,
    apply: impl Fn(&mut T) -> Result<(), ApiError> + Send + Sync,
) -> Result<Record<T>, ApiError> {
    for _ in 0..TRIES {
        let mut record = get(api, place).await?;
        let before = record.body.clone();
        apply(&mut record.body)?;
        if record.body == before {
            return Ok(record);
        }
        match api.store.put(record, api.clock.now()).await? {
            Written::Stale => {}
            done @ (Written::Done(_) | Written::NotFound | Written::NameTaken | Written::TooMany) => {
                return written(done);
            }
        }
    }
    Err(ApiError::conflict("conflict", "others are changing this at the same time; try again"))
}

/// Deletes a record.
///
/// # Errors
/// 404 when it is not there.
pub(crate) async fn delete<T: Kept + Sync>(api: &ApiState, place: &Place<T>) -> Result<(), ApiError> {
    if place.parent.is_some() {
        get(api, place).await?;
    }
    match api.store.delete(T::KIND, place.workspace, place.id.uuid(), api.clock.now()).await? {
        true => Ok(()),
        false => Err(ApiError::not_found::<T::IdKind>()),
    }
}

/// What a create or an update came to.
///
/// # Errors
/// 404 when the record or its parent is gone, 409 when a name is taken or the parent is full.
pub(crate) fn written<T: Kept>(written: Written<T>) -> Result<Record<T>, ApiError> {
    match written {
        Written::Done(record) => Ok(record),
        Written::NotFound => Err(ApiError::not_found::<T::IdKind>()),
        Written::NameTaken => {
            // What a template is known by is its slug.
            let field = if T::KIND == Kind::Template { "slug" } else { "name" };
            Err(ApiError::conflict("name_taken", format!("another one has this {field}")).on(field))
        }
        Written::TooMany => Err(ApiError::conflict(
            "limit_reached",
            "there are as many as the workspace's quotas, or the server, allow",
        )),
        Written::Stale => Err(ApiError::conflict("conflict", "somebody else changed this; try again")),
    }
}
