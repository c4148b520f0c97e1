//! The protocol's side of the tools, the same for both ways in.

use relight_core::ids::TaskId;
use relight_runtime::operations::read;
use relight_runtime::redact_input::without_secrets;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult,
    ErrorCode, Implementation, JsonObject, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::call_context::CallContext;
use super::reply::Reply;
use super::tool::Tool;
use super::{INSTRUCTIONS, INSTRUCTIONS_OVER_HTTP, agent, checkpoint, step, task};
use crate::error::ApiError;

/// Where the brief is.
const BRIEF: &str = "relight://brief";
const MARKDOWN: &str = "text/markdown";

/// A server for one caller.
#[derive(Debug, Clone)]
pub(super) struct Handler {
    pub(super) context: CallContext,
}

impl Handler {
    fn tools(&self) -> impl Iterator<Item = Tool> {
        let may_write = self.context.may_write();
        Tool::ALL
            .into_iter()
            .filter(move |tool| may_write || tool.is_read_only())
    }

    /// Runs a tool to its end, whether or not the caller waits for it. One that panics is answered too.
    async fn call(&self, tool: Tool, given: JsonObject) -> CallToolResult {
        let context = self.context.clone();
        let turn = self.context.turn().await;
        let run = tokio::spawn(async move {
            let done = run(&context, tool, given).await;
            drop(turn);
            done
        });
        let done = run
            .await
            .unwrap_or_else(|error| Err(ApiError::internal(error.to_string())));
        let reply = done.unwrap_or_else(|problem| {
            self.complain(&problem);
            problem.into()
        });
        reply.into()
    }

    fn complain(&self, problem: &ApiError) {
        if let Some(inside) = &problem.inside {
            (self.context.complain.0)(inside);
        }
    }

    async fn read_brief(&self, uri: &str) -> Result<String, ErrorData> {
        let unknown = || ErrorData::resource_not_found(format!("there is no resource {uri}"), None);
        let task = match uri.strip_prefix(BRIEF).ok_or_else(unknown)? {
            "" => None,
            rest => {
                let id = rest
                    .strip_prefix('/')
                    .and_then(decoded)
                    .ok_or_else(unknown)?;
                Some(TaskId::new(id).map_err(|_| unknown())?)
            }
        };
        let agent = self.context.agent.clone();
        let read = agent::brief_text(&self.context, task, agent).await;
        read.map_err(|problem| {
            self.complain(&problem);
            ErrorData::resource_not_found(Reply::from(problem).text, None)
        })
    }
}

/// A task's id as it stands in a URI; none when that is no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

async fn run(context: &CallContext, tool: Tool, given: JsonObject) -> Result<Reply, ApiError> {
    if !tool.is_read_only() && !context.may_write() {
        return Err(context.refuse());
    }
    tool.check_names(&given, context.is_over_http())?;
    match tool {
        Tool::TaskStart => task::start(context, given).await,
        Tool::TaskDone => task::done(context, given).await,
        Tool::TaskBlock => task::block(context, given).await,
        Tool::StepBegin => step::begin(context, given).await,
        Tool::StepEnd => step::end(context, given).await,
        Tool::StepSkip => step::skip(context, given).await,
        Tool::CheckpointSave => checkpoint::save(context, read(given)?).await,
        Tool::CheckpointResume => checkpoint::resume(context, read(given)?).await,
        Tool::Heartbeat => agent::heartbeat(context, read(given)?).await,
        Tool::Inflight => agent::inflight(context, read(given)?).await,
        Tool::ResumeBrief => agent::brief(context, read(given)?).await,
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let more = if self.context.is_over_http() {
            INSTRUCTIONS_OVER_HTTP
        } else {
            ""
        };
        let can = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        ServerConfig::new(can)
            .with_server_info(Implementation::new("relight", crate::VERSION).with_title("Relight"))
            .with_instructions(format!("{INSTRUCTIONS}{more}"))
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        Tool::named(name).map(|tool| tool.described(self.context.is_over_http()))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let over_http = self.context.is_over_http();
        let tools = self.tools().map(|tool| tool.described(over_http)).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = Tool::named(&request.name) else {
            let text = without_secrets(format!("there is no tool {}", request.name));
            return Err(ErrorData::invalid_params(text, None));
        };
        Ok(self
            .call(tool, request.arguments.unwrap_or_default())
            .await
            .into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // One that is served comes here when its parameters cannot be read.
        if matches!(request.method.as_str(), "tools/call" | "resources/read") {
            let text = format!("{}: params are missing or of a wrong type", request.method);
            return Err(ErrorData::invalid_params(text, None));
        }
        let text = without_secrets(format!("there is no method {}", request.method));
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let brief = Resource::new(BRIEF, "brief")
            .with_title("The current brief")
            .with_description("What was done before, what is in doubt, and what is next")
            .with_mime_type(MARKDOWN);
        Ok(ListResourcesResult::with_all_items(vec![brief]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let of_task = ResourceTemplate::new(format!("{BRIEF}/{{task}}"), "brief of a task")
            .with_mime_type(MARKDOWN);
        Ok(ListResourceTemplatesResult::with_all_items(vec![of_task]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = self.read_brief(&request.uri).await?;
        let contents = ResourceContents::text(text, request.uri).with_mime_type(MARKDOWN);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_from_uris_as_they_were_meant() {
        for (text, id) in [
            ("a", "a"),
            ("a%2Fb", "a/b"),
            ("a/b", "a/b"),
            ("%C3%A4", "ä"),
        ] {
            assert_eq!(decoded(text).as_deref(), Some(id));
        }
        for bad in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}
