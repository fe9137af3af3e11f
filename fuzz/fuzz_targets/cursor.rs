#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| restante_server::fuzzing::check("cursor", bytes));
