//! Which domains mail is signed for, and taken from.

use restante_core::id::WorkspaceId;
use restante_core::limits;
use restante_store::record::{Domain, Record};
use restante_store::{Error, Page, Start, Store};

/// A domain of the workspace whose records were found to be right.
pub(crate) async fn verified_domain(
    store: &dyn Store,
    workspace: WorkspaceId,
    name: &str,
) -> Result<Option<Record<Domain>>, Error> {
    let mut start = Start::Newest;
    loop {
        let page = Page { start, limit: limits::PAGE_MAX, total: false };
        let paged = store.list::<Domain>(Some(workspace), None, page).await?;
        let found = paged.items.into_iter().find(|it| it.body.name == name);
        if let Some(found) = found {
            return Ok(Some(found).filter(|it| it.body.verified_at.is_some()));
        }
        match paged.next {
            Some(next) => start = Start::After(next),
            None => return Ok(None),
        }
    }
}
