-- Ready is the sum of the other conditions. Something that takes its time is Progressing; what needs somebody is
-- Degraded: a fault of the kinds below in any condition that is not True.
local needs_somebody = {
  AmbiguousMatch = true,
  APIEndpointConfigFailed = true,
  AuthFailed = true,
  DependencyNotFound = true,
  IdentityAccessDenied = true,
  InstanceDeleted = true,
  InstanceNotFound = true,
  InstanceStateError = true,
  InvalidSpec = true,
  LoadBalancerError = true,
  NotSupported = true,
  OpenStackAuthenticationFailed = true,
  QuotaExceeded = true,
}

local function health(status, message)
  return { status = status, message = message or "" }
end

local function is_of_this_generation(condition)
  return condition.observedGeneration == nil or condition.observedGeneration == obj.metadata.generation
end

if obj.metadata.deletionTimestamp ~= nil then
  return health("Progressing", "Being deleted")
end
if obj.status == nil or obj.status.conditions == nil then
  return health("Progressing", "Not looked at yet")
end
local ready = nil
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Paused" and condition.status == "True" then
    return health("Suspended", "Paused")
  end
  if condition.type == "Ready" then
    ready = condition
  elseif condition.status ~= "True" and needs_somebody[condition.reason] and is_of_this_generation(condition) then
    return health("Degraded", condition.type .. ": " .. condition.reason .. ": " .. (condition.message or ""))
  end
end
if ready == nil then
  return health("Progressing", "Not looked at yet")
end
if ready.status == "True" then
  local observed = obj.status.observedGeneration
  if observed ~= nil and observed ~= obj.metadata.generation then
    return health("Progressing", "The newest generation is not done yet")
  end
  return health("Healthy", ready.message)
end
return health("Progressing", ready.message)
