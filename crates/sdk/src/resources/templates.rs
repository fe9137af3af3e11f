use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{
    CopyTemplate, NewTemplate, Paging, PreviewTemplate, RenderTemplate, SendTemplate, SentEmail, Template,
    TemplateChange, TemplateContent, TemplatePreview, TemplateVersion,
};

/// Calls about templates: what emails are made from. Each is named by its id (`tpl_…`) or its slug.
#[derive(Clone, Debug)]
pub struct Templates<C> {
    client: C,
}

impl<C: Clone> Templates<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Makes a template, as a draft or published at once. Not retried: two would remain.
    ///
    /// Refused with `name_taken` (409) when another has the slug, and with `template_syntax` (422) for what cannot be
    /// read. Scope `templates:write`.
    pub fn create(&self, template: &NewTemplate) -> Pending<C, Template> {
        Pending::new(&self.client, &calls::TEMPLATES_CREATE).body(template)
    }

    /// Lists templates, newest first, without `latest`. Scope `templates:read`.
    pub fn list(&self, paging: &Paging) -> Listing<C, Template> {
        Listing::new(&self.client, &calls::TEMPLATES_LIST).query(paging)
    }

    /// Gets a template. Scope `templates:read`.
    pub fn get(&self, id: &str) -> Pending<C, Template> {
        Pending::new(&self.client, &calls::TEMPLATES_GET).param("id", id)
    }

    /// Changes what a template is called, not what it says. Not retried.
    ///
    /// Refused with `name_taken` (409) when another has the slug. Scope `templates:write`.
    pub fn update(&self, id: &str, change: &TemplateChange) -> Pending<C, Template> {
        Pending::new(&self.client, &calls::TEMPLATES_UPDATE).param("id", id).body(change)
    }

    /// Deletes a template with its versions. Emails that were made of it stay. Not retried: a second call would find
    /// nothing (404).
    ///
    /// Scope `templates:write`.
    pub fn delete(&self, id: &str) -> Pending<C, ()> {
        Pending::empty(&self.client, &calls::TEMPLATES_DELETE).param("id", id)
    }

    /// Makes a copy that has the draft, and no versions. Not retried: there would be two copies.
    ///
    /// Refused with `name_taken` (409) when another has the slug. Scope `templates:write`.
    pub fn duplicate(&self, id: &str, copy: &CopyTemplate) -> Pending<C, Template> {
        Pending::new(&self.client, &calls::TEMPLATES_DUPLICATE).param("id", id).body(copy)
    }

    /// Replaces the draft. What was published stays until the draft is. Not retried.
    ///
    /// Refused with `template_syntax` (422) for what cannot be read. Scope `templates:write`.
    pub fn set_content(&self, id: &str, content: &TemplateContent) -> Pending<C, Template> {
        Pending::new(&self.client, &calls::TEMPLATES_SET_CONTENT).param("id", id).body(content)
    }

    /// Publishes the draft: emails are made of it from then on. One that is published already is answered as it was.
    /// Retried.
    ///
    /// Refused with `invalid_field` (422) when it has neither html nor text. Scope `templates:write`.
    pub fn publish(&self, id: &str) -> Pending<C, TemplateVersion> {
        Pending::new(&self.client, &calls::TEMPLATES_PUBLISH).param("id", id)
    }

    /// Lists what was published of a template, newest first. Scope `templates:read`.
    pub fn list_versions(&self, id: &str, paging: &Paging) -> Listing<C, TemplateVersion> {
        Listing::new(&self.client, &calls::TEMPLATES_LIST_VERSIONS).param("id", id).query(paging)
    }

    /// Renders the draft. Retried.
    ///
    /// Refused with `template_not_renderable` (422) with these props. Scope `templates:read`.
    pub fn preview(&self, id: &str, preview: &PreviewTemplate) -> Pending<C, TemplatePreview> {
        Pending::new(&self.client, &calls::TEMPLATES_PREVIEW).param("id", id).body(preview)
    }

    /// Renders parts of a template that is not stored. Retried.
    ///
    /// Refused with `template_syntax` (422), or with `template_not_renderable` (422) with these props. Scope
    /// `templates:read`.
    pub fn render(&self, parts: &RenderTemplate) -> Pending<C, TemplatePreview> {
        Pending::new(&self.client, &calls::TEMPLATES_RENDER).body(parts)
    }

    /// Sends an email that a template makes. It is stored before this answers. Retried, under a key: the same call
    /// again gives the email as it is then.
    ///
    /// Refused with `template_not_published` (422), with `template_not_renderable` (422) with these props, and
    /// otherwise as [`Emails::send`](super::Emails::send). Scope `emails:send`.
    pub fn send(&self, id: &str, email: &SendTemplate) -> Pending<C, SentEmail> {
        Pending::new(&self.client, &calls::TEMPLATES_SEND).param("id", id).body(email)
    }
}
