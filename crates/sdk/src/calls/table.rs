//! The table. Groups share a class and a reason.

use http::Method;

use super::{Call, Class};

macro_rules! calls {
    ($($class:ident $reason:literal { $($constant:ident $name:literal $($method:ident $path:literal)?,)* })*) => {
        $($(
            #[doc = concat!("`", $name, "`", $(": ", stringify!($method), " `", $path, "`",)? ". ", $reason)]
            pub static $constant: Call = Call {
                name: $name,
                class: Class::$class,
                reason: $reason,
                method: calls!(@method $($method)?),
                path: calls!(@path $($path)?),
            };
        )*)*

        /// Every call there is.
        pub static CALLS: &[&Call] = &[$($(&$constant,)*)*];
    };
    (@method) => { None };
    (@method $method:ident) => { Some(Method::$method) };
    (@path) => { None };
    (@path $path:literal) => { Some($path) };
}

calls! {
    Read "Nothing changes." {
        DELIVERIES_GET "deliveries.get" GET "/v1/deliveries/{id}",
        DELIVERIES_LIST "deliveries.list" GET "/v1/deliveries",
        DELIVERIES_LIST_ATTEMPTS "deliveries.list_attempts" GET "/v1/deliveries/{id}/attempts",
        DESTINATIONS_GET "destinations.get" GET "/v1/sources/{id}/destinations/{destination_id}",
        DESTINATIONS_LIST "destinations.list" GET "/v1/sources/{id}/destinations",
        DESTINATIONS_LIST_RETRIES "destinations.list_retries" GET "/v1/sources/{id}/destinations/{destination_id}/retries",
        DOMAINS_GET "domains.get" GET "/v1/domains/{id}",
        DOMAINS_LIST "domains.list" GET "/v1/domains",
        EMAILS_GET "emails.get" GET "/v1/emails/{id}",
        EMAILS_GET_ATTACHMENT "emails.get_attachment" GET "/v1/emails/{id}/attachments/{index}",
        EMAILS_GET_CONTENT "emails.get_content" GET "/v1/emails/{id}/content",
        EMAILS_GET_SOURCE "emails.get_source" GET "/v1/emails/{id}/source",
        EMAILS_LIST "emails.list" GET "/v1/emails",
        EMAILS_LIST_EVENTS "emails.list_events" GET "/v1/emails/{id}/events",
        EVENTS_GET "events.get" GET "/v1/events/{id}",
        EVENTS_LIST "events.list" GET "/v1/events",
        KEYS_GET "keys.get" GET "/v1/keys/{id}",
        KEYS_LIST "keys.list" GET "/v1/keys",
        NOTICES_LIST "notices.list" GET "/v1/notices",
        REQUESTS_GET "requests.get" GET "/v1/requests/{id}",
        REQUESTS_GET_BODY "requests.get_body" GET "/v1/requests/{id}/body",
        REQUESTS_LIST "requests.list" GET "/v1/requests",
        SOURCES_GET "sources.get" GET "/v1/sources/{id}",
        SOURCES_LIST "sources.list" GET "/v1/sources",
        STATS_ENDPOINTS "stats.endpoints" GET "/v1/stats/endpoints",
        STATS_GET "stats.get" GET "/v1/stats",
        STREAM_FOLLOW "stream.follow" GET "/v1/stream",
        SUPPRESSIONS_LIST "suppressions.list" GET "/v1/suppressions",
        SYSTEM_FIND "system.find" GET "/v1/find/{id}",
        SYSTEM_HEALTH "system.health" GET "/healthz",
        SYSTEM_METRICS "system.metrics" GET "/metrics",
        SYSTEM_OPENAPI "system.openapi" GET "/v1/openapi.json",
        SYSTEM_READY "system.ready" GET "/readyz",
        SYSTEM_SERVER "system.server" GET "/v1/server",
        TEMPLATES_GET "templates.get" GET "/v1/templates/{id}",
        TEMPLATES_LIST "templates.list" GET "/v1/templates",
        TEMPLATES_LIST_VERSIONS "templates.list_versions" GET "/v1/templates/{id}/versions",
        WEBHOOKS_GET "webhooks.get" GET "/v1/webhooks/{id}",
        WEBHOOKS_LIST "webhooks.list" GET "/v1/webhooks",
        WEBHOOKS_LIST_ATTEMPTS "webhooks.list_attempts" GET "/v1/webhooks/{id}/attempts",
        WEBHOOKS_LIST_DELIVERIES "webhooks.list_deliveries" GET "/v1/webhooks/{id}/deliveries",
        WEBHOOKS_LIST_REPLAYS "webhooks.list_replays" GET "/v1/webhooks/{id}/replays",
        WORKSPACE_GET "workspace.get" GET "/v1/workspace",
        WORKSPACE_GET_CREDITS "workspace.get_credits" GET "/v1/workspace/credits",
        WORKSPACES_LIST "workspaces.list" GET "/v1/workspaces",
    }

    Keyed "The key makes a repetition the first message again, in its current state." {
        EMAILS_SEND "emails.send" POST "/v1/emails",
        EMAILS_SEND_BATCH "emails.send_batch" POST "/v1/emails/batch",
        TEMPLATES_SEND "templates.send" POST "/v1/templates/{id}/send",
        BROADCASTS_SEND "broadcasts.send",
        EVENTS_PUBLISH "events.publish" POST "/v1/events",
        EVENTS_PUBLISH_BATCH "events.publish_batch" POST "/v1/events/batch",
    }

    Set "A set of labels: applied twice is applied once." {
        THREADS_UPDATE "threads.update",
        THREADS_TRASH "threads.trash",
    }

    Set "The moment to wake is in the body and not counted from when the request arrives." {
        THREADS_SNOOZE "threads.snooze",
        THREADS_UNSNOOZE "threads.unsnooze",
    }

    Set "A pure set of the fields it names." {
        EMAILS_UPDATE "emails.update" PATCH "/v1/emails/{id}",
        LABELS_UPDATE "labels.update",
        WEBHOOKS_UPDATE "webhooks.update" PATCH "/v1/webhooks/{id}",
        SETTINGS_UPDATE "settings.update",
        ROLES_UPDATE "roles.update",
        MEMBERS_UPDATE "members.update",
        DOMAINS_UPDATE "domains.update" PATCH "/v1/domains/{id}",
        DOMAINS_UPDATE_ADDRESS "domains.update_address",
        DOMAINS_UPDATE_ADDRESS_FORWARD "domains.update_address_forward",
        CONTACTS_UPDATE "contacts.update",
        AUDIENCES_UPDATE "audiences.update",
        KEYS_UPDATE "keys.update" PATCH "/v1/keys/{id}",
        FORMS_UPDATE "forms.update",
        BRANDING_UPDATE "branding.update",
        THREADS_UPDATE_NOTE "threads.update_note",
        CHATS_RENAME "chats.rename",
        ACCOUNT_SET_EMAIL_NOTIFICATION "account.set_email_notification",
        ACCOUNT_SET_PUSH_MUTED "account.set_push_muted",
        APP_HOST_SET "app_host.set",
        WORKSPACES_SET_ACTIVE "workspaces.set_active",
        SOURCES_UPDATE "sources.update" PATCH "/v1/sources/{id}",
        DESTINATIONS_UPDATE "destinations.update" PATCH "/v1/sources/{id}/destinations/{destination_id}",
        WORKSPACE_UPDATE "workspace.update" PATCH "/v1/workspace",
    }

    Set "A pure set of a named state." {
        EMAILS_CANCEL "emails.cancel" POST "/v1/emails/{id}/cancel",
        EMAILS_RESCHEDULE "emails.reschedule" PATCH "/v1/emails/{id}",
        BROADCASTS_CANCEL "broadcasts.cancel",
        FORMS_PAUSE "forms.pause",
        FORMS_RESUME "forms.resume",
        THREADS_RESTORE "threads.restore",
        DELIVERIES_CANCEL "deliveries.cancel" POST "/v1/deliveries/{id}/cancel",
    }

    Set "It names the end result: a second call leaves what the first left." {
        CONTACTS_SAVE "contacts.save",
        CONTACTS_SET_AUDIENCES "contacts.set_audiences",
        CONTACTS_REMOVE_PHOTO "contacts.remove_photo",
        CONTACTS_BLOCK "contacts.block",
        CONTACTS_UNBLOCK "contacts.unblock",
        CONTACTS_DELETE_MANY "contacts.delete_many",
        KEYS_REVOKE "keys.revoke" POST "/v1/keys/{id}/revoke",
        FILES_REVOKE_LINK "files.revoke_link",
        FILES_REVOKE_ALL_LINKS "files.revoke_all_links",
        APP_HOST_DELETE "app_host.delete",
        ACCOUNT_REMOVE_PHOTO "account.remove_photo",
        BRANDING_REMOVE_IMAGE "branding.remove_image",
        DOMAINS_REMOVE_LOGO "domains.remove_logo",
        DOMAINS_REMOVE_LOGO_CERTIFICATE "domains.remove_logo_certificate",
        DOMAINS_REMOVE_ADDRESS_PHOTO "domains.remove_address_photo",
        ACCOUNT_ACCEPT_INVITATION "account.accept_invitation",
        ACCOUNT_DECLINE_INVITATION "account.decline_invitation",
        FORMS_APPROVE_SUBMISSION "forms.approve_submission",
        SUBSCRIPTIONS_MOVE "subscriptions.move",
    }

    Upsert "A grant replaces itself, and an order is given whole." {
        MEMBERS_GRANT_ADDRESS "members.grant_address",
        MEMBERS_GRANT_DOMAIN "members.grant_domain",
        RULES_REORDER "rules.reorder",
        THREADS_REORDER_NOTES "threads.reorder_notes",
    }

    Upsert "Bytes sent again replace what the first try stored." {
        CONTACTS_SET_PHOTO "contacts.set_photo",
        ACCOUNT_SET_PHOTO "account.set_photo",
        BRANDING_UPLOAD_IMAGE "branding.upload_image",
        DOMAINS_SET_LOGO "domains.set_logo",
        DOMAINS_SET_LOGO_CERTIFICATE "domains.set_logo_certificate",
        DOMAINS_SET_ADDRESS_PHOTO "domains.set_address_photo",
        IMPORTS_UPLOAD_CHUNK "imports.upload_chunk",
    }

    NoOpWhenDone "Publishing what is published, or starting what was started, answers it unchanged." {
        TEMPLATES_PUBLISH "templates.publish" POST "/v1/templates/{id}/versions",
        FORMS_PUBLISH "forms.publish",
        IMPORTS_START "imports.start",
    }

    NoOpWhenDone "A repetition finds the work of the first done and says so." {
        AUDIENCES_ADD_CONTACT "audiences.add_contact",
        AUDIENCES_ADD_CONTACTS "audiences.add_contacts",
        AUDIENCES_REMOVE_CONTACTS "audiences.remove_contacts",
        AUDIENCES_IMPORT_CONTACTS "audiences.import_contacts",
        SUPPRESSIONS_ADD "suppressions.add" POST "/v1/suppressions",
        DOMAINS_CREATE_ADDRESS "domains.create_address",
    }

    Evaluate "It renders, counts or evaluates, and writes nothing." {
        TEMPLATES_PREVIEW "templates.preview" POST "/v1/templates/{id}/preview",
        TEMPLATES_RENDER "templates.render" POST "/v1/templates/render",
        BROADCASTS_PREVIEW "broadcasts.preview",
        RULES_TEST "rules.test",
    }

    Evaluate "A check made again changes nothing but when it ran." {
        DOMAINS_VERIFY "domains.verify" POST "/v1/domains/{id}/verify",
        APP_HOST_VERIFY "app_host.verify",
        SENDERS_RESEARCH "senders.research",
    }

    Creates "A repetition would leave two objects." {
        DRAFTS_CREATE "drafts.create",
        LABELS_CREATE "labels.create",
        WEBHOOKS_CREATE "webhooks.create" POST "/v1/webhooks",
        TEMPLATES_CREATE "templates.create" POST "/v1/templates",
        RULES_CREATE "rules.create",
        ROLES_CREATE "roles.create",
        TEMP_MAIL_CREATE "temp_mail.create",
        FILES_UPLOAD "files.upload",
        SOURCES_CREATE "sources.create" POST "/v1/sources",
        DESTINATIONS_CREATE "destinations.create" POST "/v1/sources/{id}/destinations",
        KEYS_CREATE "keys.create" POST "/v1/keys",
        WORKSPACES_CREATE "workspaces.create" POST "/v1/workspaces",
    }

    MovesId "Each write answers the id that the next must use." {
        DRAFTS_UPDATE "drafts.update",
    }

    Deletes "After a lost answer a repetition would report the failure of what succeeded." {
        DRAFTS_DELETE "drafts.delete",
        LABELS_DELETE "labels.delete",
        WEBHOOKS_DELETE "webhooks.delete" DELETE "/v1/webhooks/{id}",
        TEMPLATES_DELETE "templates.delete" DELETE "/v1/templates/{id}",
        RULES_DELETE "rules.delete",
        ROLES_DELETE "roles.delete",
        MEMBERS_REMOVE "members.remove",
        MEMBERS_REVOKE_ADDRESS "members.revoke_address",
        TEMP_MAIL_DELETE "temp_mail.delete",
        TEMP_MAIL_DELETE_MESSAGE "temp_mail.delete_message",
        SOURCES_DELETE "sources.delete" DELETE "/v1/sources/{id}",
        DESTINATIONS_DELETE "destinations.delete" DELETE "/v1/sources/{id}/destinations/{destination_id}",
        REQUESTS_DELETE "requests.delete" DELETE "/v1/requests/{id}",
        KEYS_DELETE "keys.delete" DELETE "/v1/keys/{id}",
    }

    Rotates "A second rotation voids the secret that the first returned." {
        WEBHOOKS_ROTATE_SECRET "webhooks.rotate_secret" POST "/v1/webhooks/{id}/rotate-secret",
        SOURCES_ROTATE_TOKEN "sources.rotate_token" POST "/v1/sources/{id}/rotate-token",
        KEYS_ROTATE "keys.rotate" POST "/v1/keys/{id}/rotate",
    }

    RepeatsEffect "The receiver would get a second delivery." {
        WEBHOOKS_TEST "webhooks.test" POST "/v1/webhooks/{id}/test",
        WEBHOOKS_REPLAY_DELIVERY "webhooks.replay_delivery" POST "/v1/webhooks/{id}/deliveries/{delivery_id}/replay",
    }

    Costs "Each costs a model call; a repetition would buy the same answer twice." {
        EMAILS_TRANSLATE "emails.translate",
        EMAILS_COMPOSE "emails.compose",
        EMAILS_REWRITE "emails.rewrite",
        EMAILS_SUGGEST_SUBJECT "emails.suggest_subject",
    }

    Security "A second mail would be sent, or a second guess at the code be spent." {
        SECURITY_BEGIN_STEP_UP "security.begin_step_up",
        SECURITY_VERIFY_STEP_UP "security.verify_step_up",
    }

    Once "A second delivery, request or replay would begin, and cost again." {
        DELIVERIES_RETRY "deliveries.retry" POST "/v1/deliveries/{id}/retry",
        DESTINATIONS_RETRY "destinations.retry" POST "/v1/sources/{id}/destinations/{destination_id}/retry",
        REQUESTS_REPLAY "requests.replay" POST "/v1/requests/{id}/replay",
        WEBHOOKS_REPLAY "webhooks.replay" POST "/v1/webhooks/{id}/replay",
        WEBHOOKS_RECOVER "webhooks.recover" POST "/v1/webhooks/{id}/recover",
    }

    Once "The grant would be made twice." {
        WORKSPACES_GRANT_CREDITS "workspaces.grant_credits" POST "/v1/workspaces/{id}/credits",
    }

    Once "Sent once; a failure is told and not repeated." {
        TEMPLATES_UPDATE "templates.update" PATCH "/v1/templates/{id}",
        TEMPLATES_DUPLICATE "templates.duplicate" POST "/v1/templates/{id}/duplicate",
        TEMPLATES_SET_CONTENT "templates.set_content" POST "/v1/templates/{id}/content",
        DOMAINS_CREATE "domains.create" POST "/v1/domains",
        DOMAINS_DELETE "domains.delete" DELETE "/v1/domains/{id}",
        SUPPRESSIONS_DELETE "suppressions.delete" DELETE "/v1/suppressions/{id}",
    }
}
