{{- define "binshift.labels" -}}
app.kubernetes.io/name: binshift
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "binshift.selector" -}}
app.kubernetes.io/name: binshift
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "binshift.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "binshift.podSecurity" -}}
{{- $always := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- toYaml (mergeOverwrite $always (.Values.podSecurityContext | default dict)) -}}
{{- end }}

{{- /* Whether the operator may list and watch nodes: true or false. */ -}}
{{- define "binshift.watchNodes" -}}
{{- ternary (empty .Values.watchNamespaces) .Values.rbac.watchNodes (eq (toString .Values.rbac.watchNodes) "auto") -}}
{{- end }}

{{- /* Everything the operator may do in a namespace that it looks after. Each verb is one that it uses. */ -}}
{{- define "binshift.rules" -}}
- apiGroups: [binshift.dev]
  resources: [streamingdataflows]
  verbs: [get, list, watch]
- apiGroups: [binshift.dev]
  resources: [streamingdataflowsnapshots]
  verbs: [get, list, watch, create, delete]
- apiGroups: [binshift.dev]
  resources: [streamingdataflows/status, streamingdataflowsnapshots/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [services, configmaps, serviceaccounts]
  verbs: [get, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [get, list, create, patch]
{{- end }}
