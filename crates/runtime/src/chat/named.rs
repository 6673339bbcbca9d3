//! Templates that `tokenizer.chat_template` names instead of holding.
//!
//! Source: `llm_chat_apply_template` in `src/llama-chat.cpp` of llama.cpp b11312. They take texts only: no tools, no reasoning.

use std::borrow::Cow;

use super::settings::ChatError;

/// Source of a template: the given text, or the template with the name.
pub(super) fn source(template: &str) -> Result<Cow<'_, str>, ChatError> {
    // Names do not contain tags.
    if ["{{", "{%", "{#"].iter().any(|tag| template.contains(tag)) {
        return Ok(Cow::Borrowed(template));
    }
    let name = template.trim();
    let made = match name {
        "chatml" => turns("<|im_start|>' ~ m.role ~ '\\n", "", "<|im_end|>\\n", "<|im_start|>assistant\\n"),
        "phi3" => turns("<|' ~ m.role ~ '|>\\n", "", "<|end|>\\n", "<|assistant|>\\n"),
        "llama3" => turns(
            "<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\\n\\n",
            "|trim",
            "<|eot_id|>",
            "<|start_header_id|>assistant<|end_header_id|>\\n\\n",
        ),
        "mistral-v1" => mistral_v1_to_v3(" ", " ", ""),
        "mistral-v3" => mistral_v1_to_v3("", " ", "|trim"),
        "mistral-v3-tekken" => mistral_v1_to_v3("", "", ""),
        "mistral-v7" => mistral_v7(" "),
        "mistral-v7-tekken" => mistral_v7(""),
        "llama2" => llama2("", "\\n", "", ""),
        "llama2-sys" => llama2("<<SYS>>\\n", "\\n<</SYS>>\\n\\n", "", ""),
        "llama2-sys-bos" => llama2("<<SYS>>\\n", "\\n<</SYS>>\\n\\n", "<s>", ""),
        "llama2-sys-strip" => llama2("<<SYS>>\\n", "\\n<</SYS>>\\n\\n", "", "|trim"),
        _ => {
            let name = name.chars().take(60).collect();
            return Err(ChatError::Named(name));
        }
    };
    Ok(Cow::Owned(made))
}

/// Every message in the same form.
fn turns(begin: &str, filter: &str, end: &str, own: &str) -> String {
    format!(
        "{{% for m in messages %}}{{{{ '{begin}' ~ ((m.content or ''){filter}) ~ '{end}' }}}}{{% endfor %}}\
         {{% if add_generation_prompt %}}{{{{ '{own}' }}}}{{% endif %}}"
    )
}

fn mistral_v1_to_v3(leading: &str, trailing: &str, filter: &str) -> String {
    format!(
        "{{% set n = namespace(inside=false) %}}{{% for m in messages %}}{{% set text = m.content or '' %}}\
         {{% if not n.inside %}}{{{{ '{leading}[INST]{trailing}' }}}}{{% set n.inside = true %}}{{% endif %}}\
         {{% if m.role == 'system' %}}{{{{ text ~ '\\n\\n' }}}}\
         {{% elif m.role == 'user' %}}{{{{ text ~ '{leading}[/INST]' }}}}\
         {{% else %}}{{{{ '{trailing}' ~ (text{filter}) ~ '</s>' }}}}{{% set n.inside = false %}}{{% endif %}}{{% endfor %}}"
    )
}

fn mistral_v7(trailing: &str) -> String {
    format!(
        "{{% for m in messages %}}{{% set text = m.content or '' %}}\
         {{% if m.role == 'system' %}}{{{{ '[SYSTEM_PROMPT]{trailing}' ~ text ~ '[/SYSTEM_PROMPT]' }}}}\
         {{% elif m.role == 'user' %}}{{{{ '[INST]{trailing}' ~ text ~ '[/INST]' }}}}\
         {{% else %}}{{{{ '{trailing}' ~ text ~ '</s>' }}}}{{% endif %}}{{% endfor %}}"
    )
}

fn llama2(begin: &str, end: &str, bos: &str, filter: &str) -> String {
    format!(
        "{{{{ '[INST] ' }}}}{{% set n = namespace(inside=true) %}}{{% for m in messages %}}\
         {{% set text = (m.content or ''){filter} %}}\
         {{% if not n.inside %}}{{{{ '{bos}[INST] ' }}}}{{% set n.inside = true %}}{{% endif %}}\
         {{% if m.role == 'system' %}}{{{{ '{begin}' ~ text ~ '{end}' }}}}\
         {{% elif m.role == 'user' %}}{{{{ text ~ ' [/INST]' }}}}\
         {{% else %}}{{{{ text ~ '</s>' }}}}{{% set n.inside = false %}}{{% endif %}}{{% endfor %}}"
    )
}
