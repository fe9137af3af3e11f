//! Flags whose values are words of the API.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use restante_sdk::wire::{
    AttemptStatus, DeliveryState, EmailStatus, HmacAlgorithm, HmacEncoding, Mode, Order, RequestState, Scope,
    VerificationKind, WebhookSort,
};

/// Makes a parser of the words that an enum knows; help lists them, and a typing error is told with the nearest.
macro_rules! parsers {
    ($($name:ident $word:ident;)*) => {$(
        pub(super) fn $name() -> impl TypedValueParser<Value = $word> {
            PossibleValuesParser::new($word::KNOWN.iter().map(|word| word.as_str())).map($word::from)
        }
    )*};
}

parsers! {
    attempt_status AttemptStatus;
    delivery_state DeliveryState;
    email_status EmailStatus;
    hmac_algorithm HmacAlgorithm;
    hmac_encoding HmacEncoding;
    mode Mode;
    order Order;
    request_state RequestState;
    scope Scope;
    verification_kind VerificationKind;
    webhook_sort WebhookSort;
}
