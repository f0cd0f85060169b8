#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headwater_fuzz::target("json").call(data));
