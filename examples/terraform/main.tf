data "aws_cloudformation_stack" "once" {
  name = "tickets-service"
}

resource "aws_iam_role" "tickets" {
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "lambda.amazonaws.com" } }]
  })
}

resource "aws_iam_role_policy_attachment" "tickets" {
  role       = aws_iam_role.tickets.name
  policy_arn = data.aws_cloudformation_stack.once.outputs["TicketsPolicyArn"]
}

resource "aws_lambda_function" "tickets" {
  function_name    = "tickets-tickets"
  filename         = "../once.out/packages/tickets.zip"
  source_code_hash = filebase64sha256("../once.out/packages/tickets.zip")
  handler          = "functions.tickets.handler.lambda_handler"
  runtime          = "python3.12"
  architectures    = ["arm64"]
  memory_size      = 512
  timeout          = 30
  role             = aws_iam_role.tickets.arn
  environment {
    variables = { ONCE_SETTINGS = data.aws_cloudformation_stack.once.outputs["TicketsSettings"] }
  }
  depends_on = [aws_iam_role_policy_attachment.tickets]
}

resource "aws_lambda_event_source_mapping" "queue" {
  event_source_arn        = data.aws_cloudformation_stack.once.outputs["TicketsQueueArn"]
  function_name           = aws_lambda_function.tickets.arn
  batch_size              = 10
  function_response_types = ["ReportBatchItemFailures"]
  scaling_config { maximum_concurrency = 10 }
}

resource "aws_lambda_event_source_mapping" "isolation" {
  event_source_arn        = data.aws_cloudformation_stack.once.outputs["TicketsIsolationQueueArn"]
  function_name           = aws_lambda_function.tickets.arn
  batch_size              = 1
  function_response_types = ["ReportBatchItemFailures"]
  scaling_config { maximum_concurrency = 2 }
}
